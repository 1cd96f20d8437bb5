// The middle one of values, of which there is one at least; the larger one of two in the middle. Thread rule: pure.
//
//   const double usual_ns = median(step_times_ns);
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace athanor::base {

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace athanor::base
