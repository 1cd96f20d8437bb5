// The time of a test in which ranks wait in vain: it stands still until those who shall wait do so, and passes with
// their looks at it then. No stall of the machine makes what precedes the wait late.
//
// Thread rule: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

namespace athanor::tests {

class StuckClock {
 public:
  // `ranks` say that they are stuck; then `waiting` threads look at the time, again and again.
  StuckClock(int ranks, int waiting, int64_t ms_a_look = 10)
      : ranks_(ranks), waiting_(waiting), ns_a_look_(ms_a_look * 1'000'000) {}
  StuckClock(const StuckClock&) = delete;
  StuckClock& operator=(const StuckClock&) = delete;

  void stuck() { ++stuck_; }
  // For GroupOptions::now_ns. Who looks for the second time has told the others what it waits for.
  int64_t now_ns() {
    if (stuck_ < ranks_) return kStart;
    const std::lock_guard lock(mutex_);
    if (++looks_[std::this_thread::get_id()] == 2) ++looking_;
    return looking_ < waiting_ ? kStart : passed_ns_ += ns_a_look_;
  }

 private:
  static constexpr int64_t kStart = 1'000'000'000;
  int ranks_, waiting_;
  int64_t ns_a_look_;
  std::atomic<int> stuck_ = 0;
  std::mutex mutex_;  // of all below
  std::map<std::thread::id, int> looks_;
  int looking_ = 0;
  int64_t passed_ns_ = kStart;
};

}  // namespace athanor::tests
