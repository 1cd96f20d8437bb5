// What is usual of a value that comes once a step and may have a trend: the median of the last kRecent values, and the size of
// the jumps from one value to the next that one in twenty of the last kWindow exceeds, which a single wild value does not move.
//
//   RollingSpread losses(Scale::linear, /*least_factor=*/1.1);
//   if (losses.is_far_above(loss)) say("a spike");         // never before there are kEnough values
//   losses.add(step, loss);
//
// Far above is: above all of the recent values, and above their median by more than kJumps such jumps and by the least factor.
// Jumps are differences, on the logarithmic scale quotients. A value that is not finite, or on the logarithmic scale not positive, is left
// out. Thread rule: a plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::run {

enum class Scale : uint8_t { linear, logarithmic };

class RollingSpread {
 public:
  static constexpr size_t kWindow = 64, kEnough = 32, kRecent = 16;
  static constexpr double kJumps = 3.0;

  RollingSpread(Scale scale, double least_factor) : scale_(scale), least_factor_(least_factor) {}

  bool is_far_above(double value) const;
  double median() const;  // of the last kRecent; NaN: there are none
  void add(int64_t step, double value);
  void forget_after(int64_t step);

  using Values = std::deque<std::pair<int64_t, double>>;  // step, value
  const Values& values() const { return values_; }

 private:
  std::vector<double> recent() const;

  Scale scale_;
  double least_factor_;
  Values values_;
};

}  // namespace athanor::run
