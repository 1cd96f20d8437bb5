// The agent of a job in a process of its own, which the launcher's first process (keeper.h) starts, and starts again when it is
// gone: the side that serves it.
//
//   serve_agent(PacketChannel(Descriptor(fd)), {.environment = environment, .write = write_to_standard_error});
//
// Returns when the job has ended. If the keeper is gone, the ranks are told to save and end, and it returns when they have.
// Errors: Error and IoError where the keeper is gone before it has said anything; all others are told to the keeper. Thread
// rule: one thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/control/packet_channel.h"

namespace athanor::launch::keeper {

struct AgentProcessOptions {
  std::vector<std::string> environment{};  // NAME=value, of the job's master
  std::function<void(std::string_view bytes)> write = [](std::string_view) {};
  Env* env = &system_env();
};

void serve_agent(control::PacketChannel channel, const AgentProcessOptions& options);

}  // namespace athanor::launch::keeper
