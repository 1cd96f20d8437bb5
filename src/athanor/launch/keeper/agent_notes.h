// How far an agent has come, in shared memory that outlives it: written at once, so that it is right whenever the agent is killed.
//
//   AgentNotes notes(fd);                                    // of create_agent_notes(); zero at the start of a job
//   notes.done({.input = 7, .count = 2});                    // two of what the master decided by its input 7
//   notes.taken(worker, 12);                                 // its message number 12
//
// Errors: IoError with the system's reason. Thread rule: one thread writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "athanor/base/shared_memory.h"
#include "athanor/control/descriptor.h"

namespace athanor::launch::keeper {

// Of the actions that the master wants: the first `count` of those that follow from its input number `input`, and all before.
struct ActionsDone {
  int64_t input = 0, count = 0;
  bool operator==(const ActionsDone&) const = default;
};

inline Descriptor create_agent_notes() {
  return Descriptor(create_shared_memory("athanor agent", kSharedUnit));
}

class AgentNotes {
 public:
  explicit AgentNotes(Descriptor fd)
      : fd_(std::move(fd)), memory_(map_shared_memory(kSharedUnit, fd_.get())) {}
  AgentNotes() : AgentNotes(create_agent_notes()) {}

  ActionsDone done() const {
    const int64_t word = at(0).load();
    return {.input = word >> kCountBits, .count = word & ((int64_t{1} << kCountBits) - 1)};
  }
  void done(const ActionsDone& done) { at(0).store((done.input << kCountBits) + done.count); }

  // Messages of workers beyond kMostWorkers are not noted: what they say is told again.
  int64_t taken(int worker) const { return worker < kMostWorkers ? at(1 + worker).load() : 0; }
  void taken(int worker, int64_t number) {
    if (worker < kMostWorkers) at(1 + worker).store(number);
  }

 private:
  static constexpr int kCountBits = 20;
  static constexpr int kMostWorkers = static_cast<int>(kSharedUnit / sizeof(int64_t)) - 1;
  std::atomic<int64_t>& at(int word) const {
    return reinterpret_cast<std::atomic<int64_t>*>(memory_.get())[word];
  }
  Descriptor fd_;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace athanor::launch::keeper
