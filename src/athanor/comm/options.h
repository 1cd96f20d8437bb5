// Options that every transport takes when a group or world is made: name, timeouts, callbacks, and hooks for tests.
//
//   make_thread_groups(4, {.timeout_ms = 5'000, .on_late = [](const std::string& report) { ... }});
//
// Thread rule: plain values; each callback says which thread calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "athanor/base/clock.h"

namespace athanor::comm {

// Fault injection for tests: what happens to a rank at the start of one of its collectives.
enum class Fault {
  none,
  die,   // as if the rank were killed: its own calls throw, the others get PeerLost
  hang,  // the rank never reaches the collective: the others report it late, then time out
};

struct GroupOptions {
  std::string name = "world";    // appears in every message
  int generation = 0;            // of the world: how often it has been formed again after a failure
  int64_t timeout_ms = 600'000;  // a member that is waited for may make no progress for so long
  // A member is reported late after max(late_ms, 3 median steps); a step is the time between two collectives of one
  // name.
  int64_t late_ms = 2'000;
  size_t slot_bytes = size_t{512} << 10;  // data moves in pieces of this size; a rank has two such slots
  std::function<void(const std::string& report)> on_late;  // called by the thread that waits
  // For traces: called by the thread that has run a collective, with its start and end.
  std::function<void(const std::string& name, int64_t start_ns, int64_t end_ns)> on_done;
  std::function<void()> on_thread;  // called first by a thread that a group starts for itself
  // Called by a thread that has waited for a call, with how long: for the others, or for the call's own work.
  std::function<void(int64_t waited_ns)> on_waited;
  // For tests: the fault of a rank before one of its collectives (blocking here is a delay), and another clock.
  std::function<Fault(int rank, uint64_t sequence)> before_call;
  std::function<int64_t()> now_ns = athanor::now_ns;

  // group 'tp', or group 'tp' of generation 2
  std::string text() const {
    return "group '" + name + (generation > 0 ? "' of generation " + std::to_string(generation) : "'");
  }
};

}  // namespace athanor::comm
