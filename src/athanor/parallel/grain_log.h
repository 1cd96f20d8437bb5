// What a grain asked of the ranks in common, in order: values that it needed, gradients that it completed. Where grains
// do not come out even, a rank that has none in the last round repeats the log of its first grain: so it takes
// part in every collective of that round without computing anything.
#pragma once

#include <functional>
#include <vector>

namespace athanor {

class GrainLog {
 public:
  void begin() {  // a new one
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

}  // namespace athanor
