// Copies of bytes that another processor core reads next: into the slots and rings that ranks share.
//
//   CopyAcross across;                       // one per writer
//   across.copy(slot, from, bytes);          // through the caches, or by streaming stores past them
//
// Why: to write a cache line that another core has read, a core must first get the line back. That is cheap where the
// two share a cache. Across the chiplets of one processor it can take most of the time: between two cores of an EPYC
// (Zen 4) 1.7 GB/s instead of 7 to 12. Streaming (non-temporal) stores need no line, 25 to 32 GB/s, but the reader then
// reads from memory, 9 to 20 GB/s instead of 30 to 45. Ranks can move to other cores at any time. So copies of 4 KiB or
// more through the caches are timed: after four slow ones in a row the next 128 are streamed, then one is tried through
// the caches again. The bytes are the same either way.
//
// Memory: any alignment, no overlap; published by a release store as after any other copy. Thread rule: one thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "athanor/base/clock.h"

namespace athanor::comm {

class CopyAcross {
 public:
  explicit CopyAcross(std::function<int64_t()> now_ns = athanor::now_ns) : now_ns_(std::move(now_ns)) {}

  void copy(void* to, const void* from, size_t bytes);
  bool past_caches() const { return streams_left_ > 0; }  // whether the next long copy will be streamed

 private:
  std::function<int64_t()> now_ns_;
  int slow_in_a_row_ = 0, streams_left_ = 0;
};

}  // namespace athanor::comm
