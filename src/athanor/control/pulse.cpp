#include "athanor/control/pulse.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "athanor/base/shared_memory.h"

namespace athanor::control {

PulseReader::PulseReader(int fd) : memory_(map_shared_memory(kSharedUnit, fd)) {}

std::atomic<uint64_t>& PulseReader::counter() const {
  return *reinterpret_cast<std::atomic<uint64_t>*>(memory_.get());
}

uint64_t PulseReader::count() const {
  return counter().load(std::memory_order_relaxed);
}

int64_t PulseWatch::listen(int64_t elapsed_ns) {
  constexpr int64_t kLongestNs = int64_t{2'000'000} * kBeatMs;
  const uint64_t beat = reader_.count();
  silent_ns_ = beat == std::exchange(last_, beat) ? silent_ns_ + std::min(elapsed_ns, kLongestNs) : 0;
  return silent_ns_;
}

Pulse::Pulse() : Pulse(Descriptor(create_shared_memory("athanor pulse", kSharedUnit))) {}

Pulse::Pulse(Descriptor fd) : PulseReader(fd.get()), fd_(std::move(fd)) {
  // The thread inherits what is blocked here: signals are for threads that wait for them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] { beat(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Pulse::~Pulse() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Pulse::beat() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, std::chrono::milliseconds(kBeatMs), [this] { return ends_; }))
    counter().fetch_add(1, std::memory_order_relaxed);
}

}  // namespace athanor::control
