// What a run came to: returned by train(), printed by `train --json`, kept in runs/NAME/report.json.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/data/dataset.h"
#include "athanor/evaluate/perplexity.h"
#include "athanor/observe/metrics.h"

namespace athanor {

struct TrainReport {
  std::string run_folder = {};
  std::string status = "running";  // running, interrupted, finished, failed
  std::string reason = {};         // of one that failed
  std::string host = {};           // where the process runs or ran that wrote this, and
  int64_t pid = 0;
  std::string time = {};  // when it did; renewed while it trains
  int64_t ranks = 1, params = 0, steps = 0, tokens = 0;
  int64_t resumed_step = 0;  // 0: started afresh
  double train_loss_last = std::numeric_limits<double>::quiet_NaN();
  double valid_loss_first =
      std::numeric_limits<double>::quiet_NaN();  // before the first update; NaN: nothing held out
  double valid_loss_last = std::numeric_limits<double>::quiet_NaN();
  ChannelValues channel_loss_first = {}, channel_loss_last = {};  // held out
  double tokens_per_second = 0.0, mfu = 0.0;                      // medians over the steps of this process
  double seconds = 0.0;                                           // since this process started
  double first_step_seconds = 0.0;  // from the start of the process to the end of its first step
  int64_t peak_bytes = 0, planned_bytes = 0, resident_bytes = 0;  // of rank 0
  std::string digest = {};                                        // of the final checkpoint
  int64_t failed_saves = 0;                                       // of this process; each was tried again
  std::vector<std::pair<std::string, int64_t>> dropped = {};      // what could not be written, and how often
  std::vector<Dataset::Omission> left_out = {};                   // of the channels' folders

  // From the steps that were measured, if any; without a peak (0) there is no mfu.
  void set_rates(std::vector<double> tokens_per_second, double flops_per_token, double peak_flops);
  void set_validation(const Evaluation& evaluation);  // the newest one
  void set_resident_bytes();                          // the most that this process has had so far
  void set_writer();                                  // this process, now
  std::string to_json() const;
  // Losses and rates as an earlier process of the same run reported them; those of this process replace them.
  void restore(const std::string& json);
  // All of it; none where the text is no report, or torn.
  static std::optional<TrainReport> parse(const std::string& json);
};

std::string host_name();

}  // namespace athanor
