// Copies of bytes that another processor reads next: into the slots and rings that ranks share.
//
// Whoever writes a line that another processor has read must first get it back. Where the two share a cache that costs
// little; across the chiplets of one processor it can take most of the time: on two cores of an EPYC (Zen 4) 1.7 GB/s
// instead of 7 to 12. Stores that pass by the caches ask for no line, 25 to 32 GB/s, but the reader's bytes then come
// from memory, 9 to 20 GB/s instead of 30 to 45. Which processors ranks run on can change at any time, so a copy of some
// length through the caches is timed: after four slow ones in a row, the next 128 go past them, then one is tried again.
// The bytes are the same either way.
//
// Memory: any alignment, no overlap; published by a release store as after any other copy. Thread rule: one thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "athanor/base/clock.h"

namespace athanor {

class CopyAcross {
 public:
  explicit CopyAcross(std::function<int64_t()> now_ns = athanor::now_ns) : now_ns_(std::move(now_ns)) {}

  void copy(void* to, const void* from, size_t bytes);
  bool past_caches() const { return streams_left_ > 0; }  // whether the next copy of some length will be

 private:
  std::function<int64_t()> now_ns_;
  int slow_in_a_row_ = 0, streams_left_ = 0;
};

}  // namespace athanor
