#include "athanor/comm/step_clock.h"

#include <algorithm>

#include "athanor/base/hash.h"

namespace athanor::comm {

void StepClock::note(const std::string& name, int64_t now_ns) {
  int64_t& seen = seen_ns_[hash64(name) % seen_ns_.size()];
  if (seen != 0) intervals_ns_[num_intervals_++ % intervals_ns_.size()] = now_ns - seen;
  seen = now_ns;
}

int64_t StepClock::late_after_ns(int64_t at_least_ms) const {
  auto intervals = intervals_ns_;
  const size_t count = std::min(num_intervals_, intervals.size());
  int64_t median = 0;
  if (count > 0) {
    const auto middle = intervals.begin() + static_cast<std::ptrdiff_t>(count / 2);
    std::nth_element(intervals.begin(), middle, intervals.begin() + static_cast<std::ptrdiff_t>(count));
    median = *middle;
  }
  return std::max(at_least_ms * 1'000'000, 3 * median);
}

}  // namespace athanor::comm
