// Records which collectives a micro-batch has caused, in order: all-gathers of the parameters that it needed,
// reductions of the gradients that it completed. Where a rank has no micro-batch in the last accumulation step, it
// repeats the log of its first one (a dummy micro-batch): so it takes part in every collective without computing
// anything.
//
//   log.begin();  log.note([=] { ... });  log.end();     // during the rank's first micro-batch of the step
//   log.repeat();                                        // runs the recorded events again
#pragma once

#include <functional>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::parallel::data {

class MicroBatchLog {
 public:
  void begin() {  // clears the log and records
    events_.clear();
    recording_ = true;
  }
  void end() { recording_ = false; }
  void note(std::function<void()> event) {
    if (recording_) events_.push_back(std::move(event));
  }
  void repeat() const {
    for (const auto& event : events_) event();
  }

 private:
  std::vector<std::function<void()>> events_;
  bool recording_ = false;
};

}  // namespace athanor::parallel::data
