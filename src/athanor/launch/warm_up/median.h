// The middle one of values, of which there is one at least. Thread rule: pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::launch::warm_up {

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace athanor::launch::warm_up
