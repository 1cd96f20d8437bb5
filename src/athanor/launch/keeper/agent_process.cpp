#include "athanor/launch/keeper/agent_process.h"

#include <utility>

#include "athanor/base/error.h"
#include "athanor/launch/agent_loop.h"
#include "athanor/launch/keeper/keeper_line.h"

namespace athanor::launch::keeper {
namespace {

LaunchOptions options_of(const TakeUp& given, const AgentProcessOptions& own, KeeperLine& keeper) {
  LaunchOptions options;
  options.num_ranks = given.num_ranks;
  options.command = {"a rank"};  // the keeper knows
  options.environment = own.environment;
  options.master_command = given.master_command;
  options.max_restarts = given.max_restarts;
  options.min_ranks = given.min_ranks;
  options.max_ranks = given.max_ranks;
  options.run_folder = given.run_folder;
  options.refuse_size = [&keeper](int num_ranks) { return keeper.refuse_size(num_ranks); };
  options.refuse_setting = [&keeper](const std::string& setting) { return keeper.refuse_setting(setting); };
  options.grace_ms = given.grace_ms;
  options.stopped_ms = given.stopped_ms;
  options.hang = static_cast<HangAction>(given.hang);
  options.timeout_ms = given.timeout_ms;
  options.hang_ms = given.hang_ms;
  options.warm_up_ms = given.warm_up_ms;
  options.tells_slow = given.tells_slow;
  options.terminal = given.terminal;
  options.write = own.write;
  options.env = own.env;
  options.system_root = given.system_root;
  return options;
}

}  // namespace

void serve_agent(control::PacketChannel channel, const AgentProcessOptions& own) {
  KeeperLine keeper(std::move(channel));
  const LaunchOptions options = options_of(keeper.given, own, keeper);
  try {
    AgentLoop loop(options, &keeper);
    const LaunchResult result = loop.run();
    // Before its sockets and files go: another agent would have nothing to take up.
    keeper.tell(JobEnded{result});
  } catch (const IoError& error) {
    keeper.tell(AgentFailure{error.what(), error.hint(), error.code()});
  } catch (const Failure& error) {
    keeper.tell(AgentFailure{error.what(), error.hint()});
  }
}

}  // namespace athanor::launch::keeper
