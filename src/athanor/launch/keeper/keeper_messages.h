// What the launcher's first process (keeper.h) and its agent say to each other: a struct per message, sent as one line of JSON,
// some with descriptors beside it.
//
//   channel.send(encode(KeeperMessage(StopAskedFor{.signal = SIGTERM, .at_ns = now})));
//   const AgentRequest request = decode_agent_request(packet.text);
//
// decode_...() takes text from outside: Error naming message and field. Thread rule: pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "athanor/launch/launch_result.h"

namespace athanor::launch::keeper {

// From the keeper.

// The first message to each agent. Its descriptors: the sockets of ranks and of operators, the pulse, the notes (agent_notes.h).
struct TakeUp {
  int num_ranks = 1, max_restarts = 0, min_ranks = 1, max_ranks = 0;
  std::vector<std::string> master_command{};
  std::string run_folder{}, begun_in{}, system_root{};  // begun_in: where a world has begun; "": none has
  int64_t grace_ms = 0, stopped_ms = 0, timeout_ms = 0, hang_ms = 0, warm_up_ms = 0;
  int hang = 0;
  bool tells_slow = true, terminal = false;
  std::string job{}, socket{}, desk{};  // the launch's number; the paths of the sockets
  int64_t keeper = 0;                   // its process
  std::string replaces{};               // what became of the agent before it; "": it is the first one
};
// A rank's process, with descriptors of it and of what it writes to standard error (if that is captured and not at its end).
// After TakeUp each that was started; later the answer to StartRank.
struct RankStarted {
  int worker = 0, rank = 0;
  int64_t pid = 0;
  std::string error{};  // why it was not; then it is nowhere
};
// What agents have given, with a descriptor for each key.
struct Kept {
  std::vector<std::string> keys{};
};
struct AllIsGiven {};  // after TakeUp
struct StopAskedFor {
  int signal = 0;
  int64_t at_ns = 0;  // by the clock of the launch's options
};
struct Pause {
  bool pauses = true;  // false: goes on
};
struct WhyNot {
  std::string why_not{};
};

// From the agent.

struct StartRank {
  int worker = 0, rank = 0, world_size = 1;
};
struct RankEnded {  // and how is known
  int worker = 0;
};
struct SignalRank {
  int worker = 0, signal = 0;
};
struct Keep {
  std::vector<std::string> keys{};
};
struct Forget {
  std::vector<std::string> keys{};
};
struct BegunIn {
  std::string run_folder{};
};
struct AskSetting {
  std::string setting{};  // "optimizer.lr=1e-3"
};
struct AskSize {
  int num_ranks = 1;
};
struct Paused {};
struct JobEnded {
  LaunchResult result{};
};
// What ends the job as an error of the agent.
struct AgentFailure {
  std::string what{}, hint{};
  int io_code = -1;  // -1: no IoError
};

using KeeperMessage = std::variant<TakeUp, RankStarted, Kept, AllIsGiven, StopAskedFor, Pause, WhyNot>;
using AgentRequest = std::variant<StartRank, RankEnded, SignalRank, Keep, Forget, BegunIn, AskSize,
                                  AskSetting, Paused, JobEnded, AgentFailure>;

std::string encode(const KeeperMessage& message);
std::string encode(const AgentRequest& request);
KeeperMessage decode_keeper_message(std::string_view text);
AgentRequest decode_agent_request(std::string_view text);

}  // namespace athanor::launch::keeper
