// A sparkline: a series as one line of block characters. Trail keeps the series short, however long the run is.
//
//   Trail trail;
//   trail.add(loss);                   // after every step
//   sparkline(trail.means(), 20);      // "█▇▅▄▃▃▂▂▂▁..."
//
// Thread rule: plain data and a pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::observe {

// A series of means, each over the same number of values; values that are not finite are left out.
class Trail {
 public:
  void add(double value);
  std::vector<double> means() const;

 private:
  std::vector<double> means_;  // each of `each_` values
  int64_t each_ = 1, in_sum_ = 0;
  double sum_ = 0;
};

// At most `cells` characters, each the mean of its part of the values; empty for fewer than two values.
std::string sparkline(std::span<const double> values, size_t cells);

}  // namespace athanor::observe
