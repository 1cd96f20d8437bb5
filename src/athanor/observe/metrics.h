// metrics.jsonl: one line per step, a JSON object with the step's metrics, handed to the system after every step.
//
//   MetricsWriter writer(env, "runs/first/metrics.jsonl", resumed_step);   // 0 for a new run
//   writer.write({.step = 1, .tokens = 8192, .loss = 9.01});
//
// Numbers are the shortest decimals that read back to the same bits. JSON has no NaN and no infinity: both are written
// as null, which reads back as NaN. On resume the lines of steps after the checkpoint, and damaged lines, are moved to
// other files (metrics_history.h). Thread rule: a writer belongs to one thread. Errors: IoError of the Env, Error for a
// step out of order.
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

namespace athanor::observe {

using ChannelValues = std::vector<std::pair<std::string, double>>;  // in the order of the config

// Metrics of a mixture-of-experts model; definitions in engine/expert_load.h.
struct ExpertMetrics {
  double max_over_mean = 1;  // load imbalance: the busiest expert's load over the mean load, worst layer
  std::vector<double> layers = {};  // the load imbalance of each layer
  double drop_share = 0;            // token drop rate: dropped choices over all choices
  double aux_loss = 0, z_loss = 0;  // without their coefficients; not part of `loss`
};

struct StepMetrics {
  int64_t step = 0;    // from 1
  int64_t tokens = 0;  // trained on so far, in the whole run
  double loss = 0;     // mean over the step's tokens, natural logarithm
  ChannelValues channel_loss = {};
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double loss_scale = 1;
  double tokens_per_second = 0;
  double mfu = 0;  // model FLOPs utilization, a fraction
  double step_seconds = 0;
  double data_seconds = 0;
  double comm_seconds = 0;
  int64_t peak_bytes = 0;
  int64_t world_size = 1;
  int64_t generation = 0;  // of the run: counts its processes and, in each, its worlds (docs/run_folder.md)
  std::optional<double> valid_loss = std::nullopt;  // in steps that evaluate
  ChannelValues valid_channel_loss = {};
  ChannelValues alarms = {};  // of guards (run/guards.h): what was far above its usual value
  std::optional<ExpertMetrics> experts = std::nullopt;
};

// One line without its line end. Invalid UTF-8 in channel names is replaced.
std::string metrics_line(StepMetrics metrics);
StepMetrics parse_metrics_line(std::string_view line);  // Error if it is not a line of metrics

// All complete lines; Error naming path and line for a broken line. An incomplete last line is left out.
std::vector<StepMetrics> read_metrics(Env& env, const std::string& path);

class MetricsWriter {
 public:
  MetricsWriter(Env& env, const std::string& path, int64_t resumed_step);

  void write(const StepMetrics& metrics);
  void sync() { file_->sync(); }  // called before a checkpoint, which relies on the lines being on disk

  // The newest step in the file. After opening it is below the resumed step only if lines were lost, for instance by a
  // power cut between two syncs. The run can go on; its history has a gap.
  int64_t last_step() const { return last_step_; }
  const MetricsHistory& found() const { return found_; }  // what opening found; `kept` is left empty

 private:
  MetricsHistory found_;
  std::unique_ptr<WritableFile> file_;
  int64_t last_step_ = 0;
};

// The shortest decimal that reads back to the same bits, with a point or an exponent; "null" for NaN and infinity.
std::string json_number(double value);

}  // namespace athanor::observe
