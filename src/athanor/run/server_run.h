// A parameter server's part of a run (trainer.h): it serves where workers run steps, and keeps a schedule file of the
// pushes that it applied.
//
//   std::optional<PushLog> log;
//   const ServerLogs logs = open_schedule(config, server, env, run.file("schedule"), state.step, log);
//   const bool stopped = serve_steps(*training.role, config.train.steps, state, [&](bool stop) { ... save ... });
//
// Errors: ConfigError where parameter_server.replay has no file of this server; those of Role::serve(). Thread rule:
// one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "athanor/base/file.h"
#include "athanor/engine/role.h"
#include "athanor/engine/state.h"

namespace athanor::run {

// Opens the push log of server `server` in `folder`, to be continued after step `step` (`log` owns the file), and reads
// the order to follow if parameter_server.replay is set. Both are empty with parameter_server.consistency = "sync".
ServerLogs open_schedule(const Config& config, int server, Env& env, const std::string& folder, int64_t step,
                         std::optional<PushLog>& log);

// Serves until step `steps` (returns false) or until a worker asks to stop (returns true). Calls served(stop) after
// every global barrier of the workers.
bool serve_steps(Role& server, int64_t steps, TrainState& state,
                 const std::function<void(bool stop)>& served);

}  // namespace athanor::run
