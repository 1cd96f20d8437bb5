// A run with parameter servers (parameter_server.servers, docs/parallelism.md), beside what other runs have: its commits
// and the logs of its pushes. The layout says which ranks are servers; the others train as they would without.
//
//   Training training(config, layout, groups, arena, {.logs = {.log = &log, .replay = read_push_log(env, path)}});
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/layout/layout.h"
#include "athanor/parallel/parameter_server/protocol.h"
#include "athanor/parallel/parameter_server/push_log.h"

namespace athanor::engine {

ServerSettings server_settings(const Config& config, const Layout& layout, int64_t num_channels);

// Whether a global barrier follows the step: after steps that are saved or evaluated, and after the last one.
bool is_commit(const Config& config, int64_t step);

// Logs of a server that applies each push as an update of its own (asynchronous and bounded-staleness training).
struct ServerLogs {
  PushLog* log = nullptr;               // written: the order in which pushes are applied
  std::vector<PushRecord> replay = {};  // followed: the order of an earlier run
  int64_t pushes = 0;                   // in the log so far
};
// The log file of server K: RUN/schedule/serverK.csv.
std::string schedule_file(const std::string& folder, int server);

}  // namespace athanor::engine
