// Processes of this machine, as /proc shows them.
//
//   for (const auto& [rank, pid] : ranks_of(launcher)) ...
//
// Thread rule: pure functions. Those that end meanwhile are left out; nothing is an error.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::chaos {

std::vector<pid_t> all_processes();
std::vector<pid_t> children_of(pid_t parent);
// The environment that a process was started with, each entry after and before a zero byte; "" where it may not be read.
std::string environment_of(pid_t pid);
std::string command_line_of(pid_t pid);  // "athanor train run.toml", cut after 120 bytes
// The ranks of a launcher by their number, as their environment says.
std::map<int, pid_t> ranks_of(pid_t launcher);
pid_t agent_of(pid_t launcher);   // -1: it has none now
pid_t master_of(pid_t launcher);  // likewise

}  // namespace athanor::chaos
