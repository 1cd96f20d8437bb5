// Estimates how long a training step takes, to decide when a rank is late: a step is the time between two calls of one
// name.
//
//   clock.note("grads.bucket3", now_ns);
//   clock.late_after_ns(/*at_least_ms=*/2000)      // max(2 s, 3 median steps)
//
// Thread rule: one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::comm {

class StepClock {
 public:
  void note(const std::string& name, int64_t now_ns);  // a call of this name begins
  int64_t late_after_ns(int64_t at_least_ms) const;    // max(at_least_ms, 3 median steps)

 private:
  // By hash of the name: when its last call began. Then the latest intervals between two calls of one name.
  std::array<int64_t, 64> seen_ns_{};
  std::array<int64_t, 31> intervals_ns_{};
  size_t num_intervals_ = 0;
};

}  // namespace athanor::comm
