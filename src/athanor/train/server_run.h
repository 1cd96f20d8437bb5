// A parameter server's part of a run (trainer.h): the schedule that it writes and follows, and updates where workers
// have steps.
//
//   std::optional<PushLog> log;
//   training.serve(places, open_schedule(config, places.peers().rank(), env, run.file("schedule"), state.step, log));
//   const bool stopped = serve_steps(*training.server, config.train.steps, state, [&](bool stop) { ... save ... });
//
// Errors: ConfigError where parameter_server.replay has no file of this server; those of ParameterServer::serve(). Thread rule:
// one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "athanor/base/file.h"
#include "athanor/parallel/parameter_server/server.h"
#include "athanor/train/served.h"
#include "athanor/train/state.h"

namespace athanor {

// What server `server` has applied in which order, in `folder`, from the step after `step` on (`log` is what writes
// it), and what it is to follow. Nothing of either with parameter_server.consistency = "sync".
ServerLogs open_schedule(const Config& config, int server, Env& env, const std::string& folder, int64_t step,
                         std::optional<PushLog>& log);

// Until step `steps`, or until a worker wishes to stop: then true. `served(stop)` after every commit of all workers.
bool serve_steps(ParameterServer& server, int64_t steps, TrainState& state,
                 const std::function<void(bool stop)>& served);

}  // namespace athanor
