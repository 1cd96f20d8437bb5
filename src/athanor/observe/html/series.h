// The charts of a run, made of its metrics line by line, in bounded memory.
//
//   Series series;
//   for (const StepMetrics& m : metrics) series.take(m);
//   for (const StepMetrics& m : abandoned) series.take_abandoned(m);
//   const std::vector<Chart> charts = series.charts(marks);
//
// Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/observe/html/chart.h"
#include "athanor/observe/html/thinned.h"
#include "athanor/observe/metrics.h"

namespace athanor::observe::html {

class Series {
 public:
  void take(const StepMetrics& metrics);            // step 0: the evaluation before the first step
  void take_abandoned(const StepMetrics& metrics);  // a step that was done in vain, in the order of the file
  std::vector<Chart> charts(const std::vector<ChartMark>& marks) const;

  int64_t num_steps() const { return num_steps_; }
  int64_t num_abandoned() const { return num_abandoned_; }
  int64_t last_step() const { return last_step_; }
  int64_t tokens() const { return tokens_; }
  double train_loss() const { return loss_.last(); }
  double valid_loss() const { return valid_.last(); }
  double tokens_per_second() const { return rate_.last(); }

 private:
  struct Channel {
    std::string name;
    Thinned train, valid;
  };
  Channel& channel(const std::string& name);

  Thinned loss_, valid_, abandoned_, rate_, mfu_, step_seconds_, data_seconds_, comm_seconds_, grad_norm_,
      lr_, ranks_, peak_;
  std::vector<Channel> channels_;
  int64_t num_steps_ = 0, num_abandoned_ = 0, last_step_ = 0, tokens_ = 0, last_abandoned_ = 0;
};

}  // namespace athanor::observe::html
