// A series of any length in a bounded number of points that keeps its extremes.
//
//   Thinned losses;
//   for (const StepMetrics& m : metrics) losses.add(static_cast<double>(m.step), m.loss);
//   draw(losses.points());
//
// Neighbours share a bucket, of which the lowest and the highest value stay, in their order. When there are too many
// buckets, each takes in the next one. A bucket with no finite value is a gap. Thread rule: plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "athanor/observe/loss_curves.h"

namespace athanor::observe::html {

class Thinned {
 public:
  static constexpr size_t kMostBuckets = 1024;

  void add(double x, double value);
  std::vector<CurvePoint> points() const;  // at most 2 kMostBuckets
  bool is_empty() const { return buckets_.empty(); }
  double last() const { return last_; }  // finite value; NaN: none

 private:
  struct Bucket {
    CurvePoint low, high;
  };
  static void merge(Bucket& into, const Bucket& next);

  std::vector<Bucket> buckets_;
  int64_t in_last_ = 0, per_bucket_ = 1;
  double last_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace athanor::observe::html
