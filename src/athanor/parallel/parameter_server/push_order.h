// Decides which worker may go on when: the clocks of a parameter server under stale synchronous parallelism (SSP: Ho et
// al., "More effective distributed ML via a stale synchronous parallel parameter server", 2013). No transport and no
// values: the order of pushes alone decides everything.
//
//   PushOrder order(/*workers=*/3, /*staleness=*/2, /*step=*/0, /*version=*/0);
//   order.take_answers();                                // {0, 1, 2}: all get the first parameters
//   PushRecord record = order.apply({.worker = 1, .step = 1});
//   order.take_answers();                                // {1}: it goes on, a step ahead of 0 and 2
//
// A worker's clock is the last step that it has pushed. It is answered at once, with two exceptions. If its clock is
// more than `staleness` ahead of the slowest clock, it waits until it is not. If its step is a commit, it waits until
// the slowest clock has reached that step. The version counts applied pushes of all workers. The staleness of a
// gradient is how many steps the slowest clock was behind the worker's when the worker got the parameters that the
// gradient was computed with.
// Error: a push out of order. Thread rule: a plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::parallel::parameter_server {

struct Push {
  int worker = 0;
  int64_t step = 0;
  bool commit = false;
  bool operator==(const Push&) const = default;
};

// One applied push, as in the replay log.
struct PushRecord {
  int64_t version = 0;  // after the push
  Push push;
  int64_t pulled = 0;     // version of the parameters that the gradient was computed with
  int64_t staleness = 0;  // in steps
  bool operator==(const PushRecord&) const = default;
};

class PushOrder {
 public:
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

  PushOrder(int workers, int64_t staleness, int64_t step, int64_t version);
  PushRecord apply(const Push& push);
  std::vector<int> take_answers();  // workers to answer now, ascending; each once per push

  int64_t version() const { return version_; }
  int64_t slowest() const;
  int64_t staleness(int worker) const { return clocks_[static_cast<size_t>(worker)].staleness; }
  bool waits(int worker) const { return clocks_[static_cast<size_t>(worker)].waits; }
  int64_t step(int worker) const { return clocks_[static_cast<size_t>(worker)].step; }
  // The first step that no worker can have begun to compute.
  int64_t first_unknown_step() const;
  // Whether all workers have pushed this step and have been answered.
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

}  // namespace athanor::parallel::parameter_server
