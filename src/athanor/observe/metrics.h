// metrics.jsonl: one JSON object a line per step, each step once, handed to the system after every step.
//
//   MetricsWriter writer(env, "runs/first/metrics.jsonl", resumed_step);   // 0 for a new run
//   writer.write({.step = 1, .tokens = 8192, .loss = 9.01, ...});
//
// Numbers are the shortest that read back to the same bits. JSON has no NaN and no infinity: both are null,
// which reads back as NaN.
//
// A resumed run has not seen the steps after its checkpoint: opening sets them and what is damaged aside
// (metrics_history.h).
// Thread rule: a writer belongs to one thread. Errors: IoError of the Env, Error for a step out of order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/observe/metrics_history.h"

namespace athanor {

using ChannelValues = std::vector<std::pair<std::string, double>>;  // in the order of the config

// Of a model with experts; train/expert_load.h has the definitions.
struct ExpertMetrics {
  double max_over_mean = 1;         // load of the busiest expert over the mean load, in the worst layer
  std::vector<double> layers = {};  // the same, by layer
  double drop_share = 0;            // dropped choices over all
  double aux_loss = 0, z_loss = 0;  // without their coefficients; not part of `loss`
};

struct StepMetrics {
  int64_t step = 0;    // from 1
  int64_t tokens = 0;  // predicted so far, in the whole run
  double loss = 0;     // mean over the step's tokens, natural logarithm
  ChannelValues channel_loss = {};
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double loss_scale = 1;
  double tokens_per_second = 0;
  double mfu = 0;  // fraction
  double step_seconds = 0;
  double data_seconds = 0;
  double comm_seconds = 0;
  int64_t peak_bytes = 0;
  int64_t world_size = 1;
  std::optional<double> valid_loss = std::nullopt;  // in steps that evaluate
  ChannelValues valid_channel_loss = {};
  std::optional<ExpertMetrics> experts = std::nullopt;
};

// One line without its line end. Names of channels are escaped; invalid UTF-8 in them is replaced.
std::string metrics_line(const StepMetrics& metrics);
StepMetrics parse_metrics_line(std::string_view line);  // Error where it is not one

// All complete lines; Error naming path and line where one of them is broken. A torn last line is left out.
std::vector<StepMetrics> read_metrics(Env& env, const std::string& path);

class MetricsWriter {
 public:
  MetricsWriter(Env& env, const std::string& path, int64_t resumed_step);

  void write(const StepMetrics& metrics);
  void sync() { file_->sync(); }  // before a checkpoint that counts on the lines

  // The newest step in the file. Right after opening it is less than the resumed step only where lines were
  // lost, as by a power cut between two syncs; the run can go on, its history has a hole.
  int64_t last_step() const { return last_step_; }
  const MetricsHistory& found() const { return found_; }  // at opening, without the lines that are kept

 private:
  MetricsHistory found_;
  std::unique_ptr<WritableFile> file_;
  int64_t last_step_ = 0;
};

// Shortest decimal that reads back to the same bits, with a point or an exponent; "null" for NaN and
// infinity.
std::string json_number(double value);

}  // namespace athanor
