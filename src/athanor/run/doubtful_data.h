// Warnings about a run's data and tokenizer at the start, and about its loss while it trains, as sentences for the
// user.
//
//   for (const std::string& line : doubtful_data(config, dataset)) recorder.warning(line);
//   LossWatch watch(first_loss);
//   if (const auto line = watch.after(step, loss)) recorder.warning(*line);
//
// Thread rule: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/data/dataset.h"

namespace athanor::run {

// Warns of more than four epochs, and of a vocabulary far larger than the tokenizer's.
std::vector<std::string> doubtful_data(const Config& config, const Dataset& data);

// Detects a run that does not learn: its loss stays above the first value.
class LossWatch {
 public:
  explicit LossWatch(std::optional<double> first = {}) : first_(first) {}  // none: takes the next step's loss

  // Returns a warning once, when the loss of twenty steps in a row has been above the first one.
  std::optional<std::string> after(int64_t step, double loss);

 private:
  std::optional<double> first_;
  int64_t above_ = 0;
  bool said_ = false;
};

}  // namespace athanor::run
