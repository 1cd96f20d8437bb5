// Which worker may go on when: the clocks of a parameter server, without transport or values, so that the order of
// pushes alone decides everything (stale synchronous parallel: Ho et al., "More effective distributed ML via a stale
// synchronous parallel parameter server", 2013).
//
//   PushOrder order(/*workers=*/3, /*staleness=*/2, /*step=*/0, /*version=*/0);
//   order.take_answers();                                // {0, 1, 2}: all get the first parameters
//   PushRecord record = order.apply({.worker = 1, .step = 1});
//   order.take_answers();                                // {1}: it goes on, a step ahead of 0 and 2
//
// A worker's clock is the last step that it has pushed. It is answered at once, unless that would let it start a step
// with its clock more than `staleness` ahead of the slowest one, or its step is a commit: then when the slowest has come
// so far. The version counts applied pushes, all workers together. The staleness of a gradient is how many steps the
// slowest clock was behind the worker's when it was given the parameters that the gradient was computed from.
// Error: a push out of order. Thread rule: a plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace athanor {

struct Push {
  int worker = 0;
  int64_t step = 0;
  bool commit = false;
  bool operator==(const Push&) const = default;
};

// One applied push, as the log has it.
struct PushRecord {
  int64_t version = 0;  // after it
  Push push;
  int64_t pulled = 0;     // version of the parameters that the gradient is of
  int64_t staleness = 0;  // in steps
  bool operator==(const PushRecord&) const = default;
};

class PushOrder {
 public:
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

  PushOrder(int workers, int64_t staleness, int64_t step, int64_t version);
  PushRecord apply(const Push& push);
  std::vector<int> take_answers();  // workers that may go on now, ascending; each is named once a push

  int64_t version() const { return version_; }
  int64_t slowest() const;
  int64_t staleness(int worker) const { return clocks_[static_cast<size_t>(worker)].staleness; }
  bool waits(int worker) const { return clocks_[static_cast<size_t>(worker)].waits; }
  int64_t step(int worker) const { return clocks_[static_cast<size_t>(worker)].step; }
  // The first step that no worker can have begun to compute.
  int64_t first_unknown_step() const;
  // Whether all workers have pushed the step, and were answered.
  bool committed(int64_t step) const;

 private:
  struct Clock {
    int64_t step = 0;
    int64_t pulled = 0, staleness = 0;
    bool waits = true, commit = false;
  };
  int64_t bound_, version_;
  std::vector<Clock> clocks_;
};

}  // namespace athanor
