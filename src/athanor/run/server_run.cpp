#include "athanor/run/server_run.h"

#include <fmt/format.h>

#include "athanor/base/error.h"

namespace athanor::run {

ServerLogs open_schedule(const Config& config, int server, Env& env, const std::string& folder, int64_t step,
                         std::optional<PushLog>& log) {
  const ParameterServerConfig& ps = config.parameter_server;
  ServerLogs logs;
  if (ps.consistency == "sync") return logs;
  if (const std::string then = schedule_file(ps.replay, server); !ps.replay.empty()) {
    if (!env.exists(then))
      throw ConfigError(
          fmt::format("parameter_server.replay: got '{}' without '{}', expected a file of each of {} servers",
                      ps.replay, then, ps.servers),
          "runs/NAME/schedule of a run with as many servers and workers");
    logs.replay = read_push_log(env, then);
  }
  env.create_folders(folder);
  logs.log = &log.emplace(env, schedule_file(folder, server), step);
  logs.pushes = log->version();
  return logs;
}

bool serve_steps(Role& server, int64_t steps, TrainState& state,
                 const std::function<void(bool stop)>& served) {
  bool stop = false;
  while (state.step < steps && !stop) {
    const Served done = server.serve();
    state.step = done.step;
    state.updates = done.updates;
    state.tokens = done.tokens;
    state.loss_scale = done.loss_scale;
    stop = done.stop;
    served(stop);
  }
  return state.step < steps;
}

}  // namespace athanor::run
