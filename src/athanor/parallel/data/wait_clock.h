// The time that a rank waits for communication.
//
//   WaitClock clock(&trace);
//   clock.wait(work, queue, "wait for gradients");   // work.wait(queue); a span of that name, category "comm"
//   const double seconds = clock.seconds();
//
// Thread rule: one thread. Errors: those of the work.
#pragma once

#include <functional>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/trace.h"
#include "athanor/comm/group.h"

namespace athanor::parallel::data {

class WaitClock {
 public:
  explicit WaitClock(Trace* trace, std::function<double()> clock = now_seconds)
      : trace_(trace), clock_(std::move(clock)) {}
  void wait(Work& work, const char* span) {
    timed(span, [&] { work.wait(); });
  }
  void wait(Work& work, Queue& queue, const char* span) {
    timed(span, [&] { work.wait(queue); });
  }
  double seconds() const { return seconds_; }
  void reset() { seconds_ = 0.0; }

 private:
  template <typename Wait>
  void timed(const char* span, const Wait& wait) {
    const double start = clock_();
    {
      const Span shown(trace_, span, "comm");
      wait();
    }
    seconds_ += clock_() - start;
  }

  Trace* trace_;
  std::function<double()> clock_;
  double seconds_ = 0.0;
};

}  // namespace athanor::parallel::data
