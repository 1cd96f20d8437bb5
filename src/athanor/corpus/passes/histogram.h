// How the values of a score are spread, in bounded memory whatever they are.
//
//   Histogram histogram;
//   histogram.add(0.25);
//   histogram.quantile(0.5);                                   // within 3 %
//   for (const auto& [low, count] : histogram.bins()) draw(low, count);
//
// A bin is a sixteenth of a power of two; values that are not finite are counted apart. Thread rule: plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::passes {

class Histogram {
 public:
  void add(double value);
  uint64_t count() const { return count_; }
  uint64_t not_finite() const { return not_finite_; }
  double least() const { return least_; }
  double most() const { return most_; }
  double mean() const;
  double quantile(double share) const;
  std::vector<std::pair<double, uint64_t>> bins() const;  // lower ends, ascending
  // Counts between least and most in so many equal steps.
  std::vector<uint64_t> even_bins(size_t number, double low, double high) const;

 private:
  std::map<int32_t, uint64_t> bins_;
  uint64_t count_ = 0, not_finite_ = 0;
  double least_ = 0, most_ = 0, sum_ = 0;
};

}  // namespace athanor::corpus::passes
