// How long a rank is used to wait: the time between two calls of one name, which is a step.
//
// Thread rule: one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace athanor {

class StepClock {
 public:
  void note(const std::string& name, int64_t now_ns);  // a call of this name begins
  int64_t late_after_ns(int64_t at_least_ms) const;    // max(at_least_ms, 3 median steps)

 private:
  // When the last call of a name began, by hash of the name, and the latest intervals between two.
  std::array<int64_t, 64> seen_ns_{};
  std::array<int64_t, 31> intervals_ns_{};
  size_t num_intervals_ = 0;
};

}  // namespace athanor
