#include "athanor/observe/html/thinned.h"

#include <cmath>

namespace athanor::observe::html {

void Thinned::merge(Bucket& into, const Bucket& next) {
  if (!std::isfinite(next.low.value)) return;
  if (!std::isfinite(into.low.value)) {
    into = next;
    return;
  }
  if (next.low.value < into.low.value) into.low = next.low;
  if (next.high.value > into.high.value) into.high = next.high;
}

void Thinned::add(double x, double value) {
  const CurvePoint point{x, value};
  if (std::isfinite(value)) last_ = value;
  if (!buckets_.empty() && in_last_ < per_bucket_) {
    merge(buckets_.back(), {point, point});
    ++in_last_;
    return;
  }
  if (buckets_.size() == kMostBuckets) {
    for (size_t i = 0; i < kMostBuckets / 2; ++i) {
      buckets_[i] = buckets_[2 * i];
      merge(buckets_[i], buckets_[2 * i + 1]);
    }
    buckets_.resize(kMostBuckets / 2);
    per_bucket_ *= 2;
  }
  buckets_.push_back({point, point});
  in_last_ = 1;
}

std::vector<CurvePoint> Thinned::points() const {
  std::vector<CurvePoint> all;
  for (const Bucket& bucket : buckets_) {
    const bool is_low_first = bucket.low.x <= bucket.high.x;
    all.push_back(is_low_first ? bucket.low : bucket.high);
    if (bucket.low.x != bucket.high.x) all.push_back(is_low_first ? bucket.high : bucket.low);
  }
  return all;
}

}  // namespace athanor::observe::html
