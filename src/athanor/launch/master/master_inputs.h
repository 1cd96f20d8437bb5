// What a Master (master.h) is told, as data, and what it answers, as text: so that it can be written down, told again, or told
// by another process. A Master that is told the same inputs with the same times is the same.
//
//   const MasterInput input{now, WorkerSaid{.worker = 1, .message = message}};
//   const std::string why_not = tell(master, input);                      // of the operator's requests; "": as he wishes
//   if (decode_input(encode(input)) != input) fail("never");
//
// decode_...() takes text from outside: Error naming input or action and the field. Thread rule: pure; tell() is the Master's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "athanor/control/messages.h"
#include "athanor/control/operator_messages.h"
#include "athanor/launch/master.h"

namespace athanor::launch::master {

struct Started {
  bool operator==(const Started&) const = default;
};
struct WorkerSaid {
  int worker = 0;
  control::WorkerMessage message{};
  bool operator==(const WorkerSaid&) const = default;
};
struct WorkerRefused {
  int worker = 0;
  std::string why{};
  bool operator==(const WorkerRefused&) const = default;
};
struct WorkerExited {
  int worker = 0;
  RankEnd end{};
  bool operator==(const WorkerExited&) const = default;
};
struct AgentFailed {
  std::string why{};
  bool operator==(const AgentFailed&) const = default;
};
struct StopAsked {
  int signal = 0;
  bool again = false;
  bool operator==(const StopAsked&) const = default;
};
struct ScaleAsked {
  int num_ranks = 1;
  bool operator==(const ScaleAsked&) const = default;
};
struct OrderAsked {
  control::Order order{};
  bool operator==(const OrderAsked&) const = default;
};
struct Ticked {
  bool operator==(const Ticked&) const = default;
};

struct MasterInput {
  int64_t now_ns = 0;
  std::variant<Started, WorkerSaid, WorkerRefused, WorkerExited, AgentFailed, StopAsked, ScaleAsked,
               OrderAsked, Ticked>
      what{};
  bool operator==(const MasterInput&) const = default;
};

std::string tell(Master& master, const MasterInput& input);

std::string encode(const MasterInput& input);
MasterInput decode_input(std::string_view text);
std::string encode(const MasterAction& action);
MasterAction decode_action(std::string_view text);

}  // namespace athanor::launch::master
