// A stream of the emulated device. Work stays in it until somebody waits for it or asks whether it is done. If the
// stream is to work at once (side_streams.h), work is done as soon as its order allows.
//
// Two streams may wait for each other's events without deadlock, also where two threads do their work: a thread that
// finds another one at work in a stream does not wait for it, and asks again later.
#pragma once

#include <sched.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "athanor/kernels/cuda/calls.h"

namespace athanor::kernels {

struct CudaCalls::Stream {
  using Work = std::function<bool()>;  // returns whether it is done; otherwise it is called again

  std::shared_ptr<Stream> self;  // until it is closed
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
  // Does the first `end` works, in order, as far as they can be done now. Returns whether all of them are done.
  bool try_until(uint64_t end) {
    if (done >= end) return true;
    const std::unique_lock lock(mutex, std::try_to_lock);
    for (; lock && done < end && work.front()(); ++done) work.pop_front();
    return done >= end;
  }
  void run_until(uint64_t end) {
    while (!try_until(end)) sched_yield();
  }
};

struct CudaCalls::Event {
  std::shared_ptr<Stream> stream;  // null: never recorded
  uint64_t end = 0;

  bool try_to_come() { return stream == nullptr || stream->try_until(end); }
};

}  // namespace athanor::kernels
