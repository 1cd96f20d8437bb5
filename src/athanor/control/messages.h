// What the launcher's agent and its workers say to each other: a struct per message, sent as one line of JSON.
//
//   channel.send(encode(Ready{.generation = 3, .why = "rank 1 was lost"}));
//   const WorkerMessage message = decode_worker_message(packet.text);
//   if (const auto* ready = std::get_if<Ready>(&message)) { ... }
//
// A worker says Hello, is told Welcome, says Ready, and waits for Meet: its rank in a generation, with the descriptors of
// shared memory that belong to it. Before the first world of a job comes WarmUp, which it answers by WarmedUp. What it says
// for certain has numbers, so that another agent can be told what the one before it has not taken. Begun says that older
// slots may go. When a group breaks, it is Ready again. decode_...() takes text from outside: Error names the message and
// the field if one is missing, has a wrong type, is out of range or too long, or if the message is unknown. Fields that are
// not known are ignored, so that versions may differ. Thread rule: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "athanor/base/namespaces.h"
#include "athanor/control/persist_messages.h"
#include "athanor/control/progress_messages.h"
#include "athanor/control/warm_up_messages.h"
#include "athanor/observe/event_log.h"

namespace athanor::control {

constexpr int kProtocolVersion = 1;
constexpr size_t kTextBytes = 4096;  // of any text; encode() cuts longer ones
constexpr size_t kJobDigits = 32;    // hexadecimal: a random number of 128 bits, of this launch
constexpr int kMostLeft = 240;       // slots of the last generation in one Meet

// From a worker.
struct Hello {
  int version = kProtocolVersion;
  std::string job{};
  int worker = 0;  // the number of the process in this launch
  int64_t pid = 0;
  bool operator==(const Hello&) const = default;
};

// Wants the world after `generation`; -1: it has had none.
struct Ready {
  int64_t generation = -1;
  std::string why{};
  bool operator==(const Ready&) const = default;
};

// The first snapshot of this generation is whole on every rank: slots of older ones may go.
struct Begun {
  int64_t generation = 0, step = 0;
  std::string run_folder{};
  bool in_place =
      false;          // in the slots of the last generation that had begun: those of this one are not used
  int64_t work = -1;  // ranks with the same number have the same work on a step; -1: that is not known
  bool operator==(const Begun&) const = default;
};

// Rank 0 has written the checkpoint of a step, or could not.
struct Saved {
  int64_t generation = 0, step = 0;
  std::string path{}, error{};  // one of them
  bool operator==(const Saved&) const = default;
};

// Something that rank 0 has seen and the launcher has not: an act of a guard, a checkpoint. Its time and generation are
// the launcher's.
struct Event {
  observe::RunEvent what{};
  bool operator==(const Event&) const = default;
};

enum class Status { finished, interrupted, failed };
// Of a failure. `peer`: another rank, or the group that broke. `mismatch`: ranks that made different calls. `exhausted`: the
// system gave no more memory, threads or descriptors.
enum class Cause { none, config, error, not_finite, io, peer, mismatch, exhausted };

// The last words of a worker before it exits.
struct Farewell {
  Status status = Status::finished;
  Cause cause = Cause::none;
  std::string what{}, hint{};
  bool operator==(const Farewell&) const = default;
};

// From the agent.

// What the operator wants of the ranks of a world before they train on: a checkpoint, to go back to one, or another setting.
struct Order {
  bool save = false;
  int64_t rollback_step = -1;  // -1: they go on from the newest state
  std::string set{};           // "optimizer.lr=1e-3"; "": none
  bool operator==(const Order&) const = default;
};

// How the cause of an event `set` begins with which the ranks refuse what Order wants.
inline constexpr std::string_view kNotSet = "not set: ";

// A world to join. Its descriptors, in this order: the generation's segment, this rank's new slots, the agent's pulse
// (control/pulse.h), and for each rank of `left` its slots of the last generation that had begun, which this process has to give
// to the others: those of the dead process that it replaces, or of ranks that are gone.
struct Meet {
  int64_t generation = 0;
  int rank = 0, size = 1;
  std::string why{};
  std::vector<int> left{};
  Order order{};
  bool operator==(const Meet&) const = default;
};

// Somebody asks the run to save and end, as a signal to the process would.
struct Stop {
  int signal = 0;
  bool operator==(const Stop&) const = default;
};

// There will be no other world for this process.
struct End {
  std::string why{};
  bool operator==(const End&) const = default;
};

// The answer to Hello. `taken`: the number of the last message of this worker that an agent has taken.
struct Welcome {
  int64_t taken = 0;
  bool operator==(const Welcome&) const = default;
};

using WorkerMessage = std::variant<Hello, Ready, Begun, Saved, Progress, Event, Farewell, Persist, WarmedUp>;
using AgentMessage = std::variant<Meet, Stop, End, Persisted, Welcome, WarmUp>;

struct NumberedMessage {
  WorkerMessage message{};
  int64_t number = 0;  // from 1; 0: it has none
};
std::string encode(const WorkerMessage& message, int64_t number = 0);
std::string encode(const AgentMessage& message);
WorkerMessage decode_worker_message(std::string_view text);
NumberedMessage decode_numbered_message(std::string_view text);
AgentMessage decode_agent_message(std::string_view text);

std::string_view name_of(Status status);
std::string_view name_of(Cause cause);

}  // namespace athanor::control
