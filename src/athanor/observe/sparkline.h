// The shape of a series in one line of block characters, and a series that stays short however long it runs.
//
//   Trail trail;
//   trail.add(loss);                   // after every step
//   sparkline(trail.means(), 20)       // "█▇▅▄▃▃▂▂▂▁..."
//
// Thread rule: plain data and a pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace athanor {

// Means of equally many values each; what is not finite is left out.
class Trail {
 public:
  void add(double value);
  std::vector<double> means() const;

 private:
  std::vector<double> means_;  // of `each_` values
  int64_t each_ = 1, in_sum_ = 0;
  double sum_ = 0;
};

// At most `cells` characters, each the mean of its part of the values; empty for fewer than two values.
std::string sparkline(std::span<const double> values, size_t cells);

}  // namespace athanor
