// What every transport lets its maker choose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "athanor/base/clock.h"

namespace athanor {

// What a test makes happen to a rank at the start of one of its collectives.
enum class Fault {
  none,
  die,   // as if the rank were killed: its own calls throw, the others get PeerLost
  hang,  // the rank never gets to the collective: the others report it late, then time out
};

struct GroupOptions {
  std::string name = "world";    // appears in every message
  int64_t timeout_ms = 600'000;  // without any progress of a member that is waited for
  int64_t late_ms = 2'000;       // reported after max(this, 3 median steps); a step is the time between two
                                 // collectives of one name
  size_t slot_bytes =
      size_t{512} << 10;  // of each of a rank's two slots: the size of the pieces data moves in
  std::function<void(const std::string& report)> on_late;  // called by the thread that waits
  // Called by the thread that carried out a collective, with the time that took: for traces.
  std::function<void(const std::string& name, int64_t start_ns, int64_t end_ns)> on_done;
  std::function<void()> on_thread;  // called first by the thread that a group has of its own
  // For tests: a fault of a rank before one of its collectives (blocking here is a delay), and another clock.
  std::function<Fault(int rank, uint64_t sequence)> before_call;
  std::function<int64_t()> now_ns = athanor::now_ns;
};

}  // namespace athanor
