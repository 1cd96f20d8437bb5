// What an operator (`athanor ctl`) and the launcher of a run say to each other: a struct per message, sent as one line of
// JSON over a PacketChannel.
//
//   channel.send(encode(OperatorRequest(ScaleTo{.num_ranks = 3})));
//   const OperatorAnswer answer = decode_operator_answer(packet.text);
//   if (const auto* refused = std::get_if<Refused>(&answer)) fail("{}", refused->why);
//
// A request gets one answer, after which the launcher closes the connection. Where the answer takes a while Working comes
// before it. decode_...() takes text from outside: Error as in messages.h. Thread rule: pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::control {

// From an operator.

struct AskStatus {
  bool operator==(const AskStatus&) const = default;
};
struct ScaleTo {
  int num_ranks = 1;
  bool operator==(const ScaleTo&) const = default;
};
struct KillRank {
  int rank = 0;
  bool operator==(const KillRank&) const = default;
};
struct SaveNow {
  bool operator==(const SaveNow&) const = default;
};
struct Set {
  std::string setting{};  // "optimizer.lr=1e-3"
  bool operator==(const Set&) const = default;
};
struct GoBack {
  int64_t step = 0;  // of a checkpoint
  bool operator==(const GoBack&) const = default;
};

// From the launcher.

enum class RankState { starting, meeting, training, leaving, ended };

struct RankStatus {
  int rank = 0;
  int64_t pid = -1;  // -1: no process has this rank now
  int node = 0;
  RankState state = RankState::starting;
  int64_t step = -1;  // the last one that it has done; -1: none is known
  bool operator==(const RankStatus&) const = default;
};
struct JobStatus {
  std::string run{};  // its folder
  int64_t step = -1, generation = -1;
  double goodput = 0.0;  // the share of the time since the first world began in which the ranks trained
  std::vector<RankStatus> ranks{};
  bool operator==(const JobStatus&) const = default;
};
struct Working {
  std::string what{};
  bool operator==(const Working&) const = default;
};
struct Done {
  std::string what{};
  bool operator==(const Done&) const = default;
};
struct Refused {
  std::string why{};
  bool operator==(const Refused&) const = default;
};

using OperatorRequest = std::variant<AskStatus, ScaleTo, KillRank, SaveNow, GoBack, Set>;
using OperatorAnswer = std::variant<JobStatus, Working, Done, Refused>;

std::string encode(const OperatorRequest& request);
std::string encode(const OperatorAnswer& answer);
OperatorRequest decode_operator_request(std::string_view text);
OperatorAnswer decode_operator_answer(std::string_view text);

std::string_view name_of(RankState state);

}  // namespace athanor::control
