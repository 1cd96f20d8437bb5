// How long a rank has worked on steps, and how long it has waited for the others in them: from the start of the process, without
// evaluations, saves and what else stands between steps. From both the launcher tells which rank is slow
// (launch/diagnosis/slow_watch.h).
//
//   WorkClock clock;
//   clock.begin(now_ns());                  // steps, or the first one after something else
//   clock.waited(ns);                       // any thread, after each wait for a collective or message
//   clock.end(now_ns());                    // something else, or a step is done
//   clock.busy_ns(); clock.waited_ns();
//
// A wait that begins outside of steps and ends in them does not occur: who waits is the thread that begins and ends. Thread
// rule: one thread; waited() from any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::run {

class WorkClock {
 public:
  void begin(int64_t now_ns) {
    begun_ns_ = now_ns;
    waited_at_begin_ns_ = all_waited_ns_.load(std::memory_order_relaxed);
  }
  void end(int64_t now_ns) {
    if (begun_ns_ < 0) return;
    const int64_t passed_ns = now_ns - begun_ns_;
    // Threads that wait at the same time wait no longer than the time that passes.
    const int64_t waited_ns =
        std::min(all_waited_ns_.load(std::memory_order_relaxed) - waited_at_begin_ns_, passed_ns);
    waited_ns_ += waited_ns;
    busy_ns_ += passed_ns - waited_ns;
    begun_ns_ = -1;
  }
  void waited(int64_t ns) { all_waited_ns_.fetch_add(ns, std::memory_order_relaxed); }

  int64_t busy_ns() const { return busy_ns_; }
  int64_t waited_ns() const { return waited_ns_; }

 private:
  std::atomic<int64_t> all_waited_ns_ = 0;
  int64_t begun_ns_ = -1;  // -1: not in a step
  int64_t waited_at_begin_ns_ = 0, busy_ns_ = 0, waited_ns_ = 0;
};

}  // namespace athanor::run
