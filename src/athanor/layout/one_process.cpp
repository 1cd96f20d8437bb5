#include "athanor/layout/one_process.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"

namespace athanor::layout {

Config one_process(Config config) {
  config.parallel.dp =
      config.local_sgd.sync_interval > 0 ? config.parallel.dp / config.local_sgd.group_size : 1;
  config.local_sgd.group_size = std::min<int64_t>(config.local_sgd.group_size, 1);
  config.parallel.tp = config.parallel.cp = 1;
  config.parallel.pp = config.parallel.ep = 1;
  config.parallel.stage_layers.clear();
  config.parallel.zero_stage = config.parallel.shard_degree = config.parameter_server.servers = 0;
  config.parallel.load_balance = "even";
  config.parallel.sp = false;
  config.parallel.recompute = "none";
  config.offload = {.path = config.offload.path};
  return config;
}

int least_ranks(const Config& config) {
  const ParallelConfig& p = config.parallel;
  return static_cast<int>(p.pp * std::max<int64_t>(1, p.dp) * p.cp * p.tp + config.parameter_server.servers);
}

void check_comparable(const Config& config, bool all_layouts) {
  if (config.parameter_server.servers > 0 && config.parameter_server.consistency != "sync")
    throw ConfigError(
        "parameter_server.consistency: got " + config.parameter_server.consistency + ", expected sync",
        "what others compute depends on who is first; parameter_server.replay runs it again");
  if (config.parameter_server.servers > 0 && all_layouts)
    throw ConfigError(fmt::format("parameter_server.servers: got {} with --all-layouts, expected 0",
                                  config.parameter_server.servers),
                      "one layout at a time is compared with one process");
  if (config.compression.method != "none")
    throw ConfigError("compression.method: got " + config.compression.method + ", expected none",
                      "it changes what is computed: docs/compression.md says what it is compared with");
  if (config.local_sgd.sync_interval > 0 && all_layouts)
    throw ConfigError(fmt::format("local_sgd.sync_interval: got {} with --all-layouts, expected 0",
                                  config.local_sgd.sync_interval),
                      "one layout at a time is compared with its replica groups, each in one process");
}

}  // namespace athanor::layout
