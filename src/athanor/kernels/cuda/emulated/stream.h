// A stream of the emulated device: work waits in it until somebody waits for it, or looks whether it is done; or, where
// the stream is to work at once (side_streams.h), is done as soon as it can be.
//
// Two streams may wait for each other's events: what one waits for was submitted before its wait, so the other looks
// back no further than to what it has done already, for which it takes no lock.
#pragma once

#include <sched.h>

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "athanor/kernels/cuda/calls.h"

namespace athanor {

struct CudaCalls::Stream {
  using Work = std::function<bool()>;  // whether it is done; else it is called again

  std::mutex mutex;
  std::deque<Work> work;
  uint64_t submitted = 0;
  std::atomic<uint64_t> done = 0;
  bool at_once = false;
  CudaFault* fault = nullptr;

  void submit(Work one) {
    uint64_t end = 0;
    {
      const std::lock_guard lock(mutex);
      work.push_back(std::move(one));
      end = ++submitted;
    }
    if (at_once) try_until(end);
  }
  // Does what was submitted first, up to this number, as far as it can be done now.
  bool try_until(uint64_t end) {
    if (done >= end) return true;
    const std::lock_guard lock(mutex);
    for (; done < end && work.front()(); ++done) work.pop_front();
    return done >= end;
  }
  void run_until(uint64_t end) {
    while (!try_until(end)) sched_yield();
  }
};

struct CudaCalls::Event {
  Stream* stream = nullptr;  // null: never recorded
  uint64_t end = 0;

  bool try_to_come() { return stream == nullptr || stream->try_until(end); }
};

}  // namespace athanor
