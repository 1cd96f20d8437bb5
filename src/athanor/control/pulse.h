// Shows other processes of the host that this one runs, and has not been stopped: a count in shared memory that a thread of
// its own raises, so that a busy process has a pulse, too.
//
//   Pulse pulse;                                            // the agent's; pulse.fd() goes to its workers
//   const PulseReader reader(fd);
//   const bool is_silent = reader.count() == before;        // no beat since then
//   PulseWatch watch(fd);
//   const int64_t silent_ns = watch.listen(elapsed_ns);     // from time to time
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

// For how long there has been no beat.
class PulseWatch {
 public:
  explicit PulseWatch(int fd) : reader_(fd), last_(reader_.count()) {}  // the descriptor stays the caller's
  // `elapsed_ns`: since the last call. What took much longer than it should was a time in which this process was stopped,
  // and maybe the other one, too: it hardly counts.
  int64_t listen(int64_t elapsed_ns);
  void forgive() { silent_ns_ = 0; }

 private:
  PulseReader reader_;
  uint64_t last_;
  int64_t silent_ns_ = 0;
};

class Pulse : public PulseReader {
 public:
  Pulse();
  explicit Pulse(Descriptor fd);  // goes on with that of a process that is gone
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;
  int fd() const { return fd_.get(); }

 private:
  void beat();

  Descriptor fd_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace athanor::control
