// Writes checkpoints out of the slots of the ranks (checkpoint/format/persist.h), one at a time, on a thread of its own:
// training waits for no disk, and a rank that dies takes no checkpoint with it.
//
//   SlotSaver saver(env);
//   saver.start({.path = path, .step = 100, .files = files}, slots_of_all_ranks);   // descriptors, which stay the caller's
//   polled.push_back({saver.fd(), POLLIN, 0});
//   while (auto saved = saver.take()) tell(*saved);                                 // its slots are not pinned any more
//
// The thread yields to those of the ranks (nice 10). The destructor waits for the end of what is being written; give_up() makes
// that soon. Errors: none; what goes wrong is told by take(). Thread rule: one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/checkpoint/format/persist.h"
#include "athanor/control/descriptor.h"
#include "athanor/control/messages.h"

namespace athanor::launch {

class SlotSaver {
 public:
  explicit SlotSaver(Env& env);
  ~SlotSaver();
  SlotSaver(const SlotSaver&) = delete;
  SlotSaver& operator=(const SlotSaver&) = delete;

  // Returns once the folder is locked, or cannot be. While another one is being written it is refused, by take(). `is_repeated`:
  // a process that has ended may have written it.
  void start(const PersistOrder& order, const std::vector<int>& slots, bool is_repeated = false);
  bool is_busy() const { return thread_.joinable(); }
  int64_t step() const { return step_; }  // that is being written
  int fd() const { return wake_.get(); }  // readable: there is something to take
  std::optional<control::Persisted> take();
  void wait();  // for the end of what is being written
  void give_up() { give_up_ = true; }

 private:
  struct Memory {
    std::shared_ptr<std::byte> bytes;
    size_t size_bytes;
  };
  void tell(control::Persisted what);
  std::string persist(const PersistOrder& order, const std::vector<Memory>& memories,
                      const std::function<void()>& begun);

  Env& env_;
  control::Descriptor wake_;  // an eventfd
  std::atomic<bool> give_up_ = false;
  int64_t step_ = -1;
  std::mutex mutex_;
  std::deque<control::Persisted> ended_;
  bool is_over_ = false;  // the thread has told its end
  std::thread thread_;
};

// Nobody reads the slots behind these descriptors: they may all be written to.
void release_slots(const std::vector<int>& slots);

}  // namespace athanor::launch
