// Shows other processes of the host that this one runs, and has not been stopped: a count in shared memory that a thread of
// its own raises, so that a busy process has a pulse, too.
//
//   Pulse pulse;                                            // the agent's; pulse.fd() goes to its workers
//   const PulseReader reader(fd);
//   const bool is_silent = reader.count() == before;        // no beat since then
//
// Errors: IoError with the system's reason. Thread rule: any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "athanor/control/descriptor.h"

namespace athanor::control {

constexpr int kBeatMs = 500;

class PulseReader {
 public:
  explicit PulseReader(int fd);  // which stays the caller's
  uint64_t count() const;

 protected:
  std::atomic<uint64_t>& counter() const;

 private:
  std::shared_ptr<std::byte> memory_;
};

class Pulse : public PulseReader {
 public:
  Pulse();
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;
  int fd() const { return fd_.get(); }

 private:
  explicit Pulse(Descriptor fd);
  void beat();

  Descriptor fd_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace athanor::control
