// Waits for the signals that ask a run to end (stop_requests.h), on a thread of its own, so that they are answered at
// once, however long a training step takes.
//
//   StopWatcher watcher({.on_first = [&](int number) { say(number); },
//                        .on_again = [](int number) { _Exit(128 + number); }});
//   io.stop = &watcher.requested();
//
// Make the watcher before any other thread: it blocks the signals in the constructing thread and so in every thread
// started later. The destructor unblocks them, but not under a
// launcher, whose signal may come when the rank has ended with the others already. The callbacks run on the watcher's thread. Errors: IoError if the system
// gives no descriptor. Thread rule: requested() from any thread.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <thread>

#include "athanor/base/clock.h"
#include "athanor/control/descriptor.h"

namespace athanor::launch {

struct StopWatcherOptions {
  std::function<void(int number)> on_first = [](int) {};
  std::function<void(int number)> on_again = [](int) {};
  std::function<void()> on_thread = [] {};  // called first by the watcher's thread
  bool under_launcher = false;              // the parent process is `athanor launch`
  std::function<int64_t()> clock = now_ns;
};

class StopWatcher {
 public:
  explicit StopWatcher(StopWatcherOptions options);
  ~StopWatcher();
  StopWatcher(const StopWatcher&) = delete;
  StopWatcher& operator=(const StopWatcher&) = delete;

  const std::atomic<int>& requested() const { return requested_; }  // the signal that asked first; 0: none

 private:
  void watch();

  StopWatcherOptions options_;
  std::atomic<int> requested_{0};
  sigset_t before_{};
  Descriptor signals_, end_;
  std::thread thread_;
};

}  // namespace athanor::launch
