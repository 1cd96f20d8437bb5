#include "athanor/layout/one_process.h"

#include <algorithm>

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

}  // namespace athanor::layout
