// What the ranks of a run are doing, told to the launcher for as long as this lives; then what they did before. Where they count
// nothing for longer than is usual of it, the launcher looks where they stand (launch/diagnosis/hang_watch.h).
//
//   const Doing saving(run, control::ProgressKind::saving);
//
// Thread rule: the run's thread.
#pragma once

#include <utility>

#include "athanor/run/run.h"

namespace athanor::run {

class Doing {
 public:
  Doing(Run& run, control::ProgressKind kind) : run_(run), before_(std::exchange(run.doing, kind)) {
    run_.does(kind);
  }
  ~Doing() {
    run_.doing = before_;
    run_.does(before_);
  }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

 private:
  Run& run_;
  control::ProgressKind before_;
};

}  // namespace athanor::run
