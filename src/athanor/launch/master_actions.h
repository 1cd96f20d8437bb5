// What a Master wants done, as data: the agent does it with processes, sockets and memory. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "athanor/control/messages.h"
#include "athanor/observe/event_log.h"

namespace athanor::launch {

// A process numbered `worker` shall become rank `rank`. If that cannot be done: Master::exited().
struct StartWorker {
  int worker, rank;
  bool operator==(const StartWorker&) const = default;
};

// A segment and new slots for the members, by rank; each is told to meet. `left`: the slots of `left_generation` that a
// member is given. Slots of other generations may go.
struct FormWorld {
  struct Member {
    int worker;
    std::vector<int> left{};
    bool operator==(const Member&) const = default;
  };
  int64_t generation;
  std::string why;
  std::vector<Member> members;
  int64_t left_generation = -1;  // -1: none
  control::Order order{};
  bool operator==(const FormWorld&) const = default;
};

// Every member of the newest world shall throw PeerLost naming `rank`; or, LeaveWorld, those that still need it.
struct BreakWorld {
  int rank;
  std::string why;
  bool operator==(const BreakWorld&) const = default;
};
struct LeaveWorld {
  int rank;
  bool operator==(const LeaveWorld&) const = default;
};

// Slots of generations before this one may go.
struct ReleaseSlots {
  int64_t before;
  bool operator==(const ReleaseSlots&) const = default;
};

struct SendToWorker {
  int worker;
  control::AgentMessage message;
  bool operator==(const SendToWorker&) const = default;
};
struct SignalWorker {
  int worker, number;
  bool operator==(const SignalWorker&) const = default;
};

// A line for the console.
struct Say {
  std::string line;
  bool operator==(const Say&) const = default;
};

// A line of events.jsonl.
using JobEvent = observe::RunEvent;

using MasterAction = std::variant<StartWorker, FormWorld, BreakWorld, LeaveWorld, ReleaseSlots, SendToWorker,
                                  SignalWorker, Say, JobEvent>;

}  // namespace athanor::launch
