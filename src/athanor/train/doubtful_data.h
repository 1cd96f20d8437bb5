// What is doubtful of a run once its data and tokenizer are known, and while it trains, as sentences for the user.
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

namespace athanor {

// Epochs above four, a vocabulary far above the tokenizer's.
std::vector<std::string> doubtful_data(const Config& config, const Dataset& data);

// A loss that stays above its first value is a run that does not learn.
class LossWatch {
 public:
  explicit LossWatch(std::optional<double> first = {}) : first_(first) {}  // none: that of the next step

  // Said once, when the loss of twenty steps running has been above the first one.
  std::optional<std::string> after(int64_t step, double loss);

 private:
  std::optional<double> first_;
  int64_t above_ = 0;
  bool said_ = false;
};

}  // namespace athanor
