// The result of a run: returned by train(), printed by `train --json`, kept in runs/NAME/report.json.
//
//   TrainReport report;
//   report.set_rates(rates, flops_per_token, peak_flops);
//   env.write_atomically(path, report.to_json());
//   if (const auto old = TrainReport::parse(text)) print(old->status);
//
// Losses are in nats per token. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/data/dataset.h"
#include "athanor/engine/decisions.h"
#include "athanor/evaluate/perplexity.h"
#include "athanor/observe/incidents.h"
#include "athanor/observe/metrics.h"

namespace athanor::run {

// What a phase of the run came to (config/phases.h).
struct PhaseLosses {
  std::string name;
  int64_t last_step = 0;
  double train_loss = std::numeric_limits<double>::quiet_NaN();  // of its last step
  double valid_loss =
      std::numeric_limits<double>::quiet_NaN();  // held out, at its end; NaN: nothing held out
  ChannelValues channel_loss = {};               // held out
};

struct TrainReport {
  std::string run_folder = {};
  std::string status = "running";  // running, interrupted, finished, failed
  std::string reason = {};         // why it failed
  std::string host = {};           // host and pid of the process that wrote this report
  int64_t pid = 0;
  std::string time = {};  // when the report was written; renewed while the run trains
  int64_t ranks = 1, params = 0, steps = 0, tokens = 0;
  int64_t resumed_step = 0;  // 0: started afresh
  double train_loss_last = std::numeric_limits<double>::quiet_NaN();
  double valid_loss_first =
      std::numeric_limits<double>::quiet_NaN();  // before the first update; NaN: nothing held out
  double valid_loss_last = std::numeric_limits<double>::quiet_NaN();
  ChannelValues channel_loss_first = {}, channel_loss_last = {};  // held out
  std::vector<PhaseLosses> phases = {};                           // those that are done
  std::vector<Decision> decisions = {};                           // that have shaped the run so far
  double tokens_per_second = 0.0, mfu = 0.0;                      // medians over the steps of this process
  double seconds = 0.0;                                           // since the start of this process
  double first_step_seconds = 0.0;  // from the start of the process to the end of its first step
  int64_t peak_bytes = 0, planned_bytes = 0, resident_bytes = 0;  // of rank 0
  std::string digest = {};                                        // of the final checkpoint
  int64_t failed_saves = 0;                                       // in this process; each was tried again
  std::vector<std::pair<std::string, int64_t>> dropped = {};      // what could not be written, and how often
  // Of a process that no launcher started; else the launcher knows.
  std::optional<Incidents> incidents = {};
  double goodput = 1.0;  // share of the time since the first step began that no incident took
  std::vector<Dataset::Omission> left_out = {};  // files skipped in the channels' folders

  // Sets the medians of the measured steps, if any. peak_flops is 0 where unknown: then mfu is not set.
  void set_rates(std::vector<double> tokens_per_second, double flops_per_token, double peak_flops);
  void set_validation(const Evaluation& evaluation);  // the newest evaluation
  void end_phase(const std::string& name);            // with the losses that it has now
  void set_resident_bytes();                          // the peak of this process so far
  void set_writer();                                  // host, pid and time: this process, now
  std::string to_json() const;
  // Takes losses and rates from the report of an earlier process of this run, until this process sets its own.
  void restore(const std::string& json);
  // Reads a complete report; none where the text is something else or cut off.
  static std::optional<TrainReport> parse(const std::string& json);
};

std::string host_name();

}  // namespace athanor::run
