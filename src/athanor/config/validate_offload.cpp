#include "athanor/config/validate_offload.h"

#include <tuple>
#include <utility>

#include "athanor/config/refuse.h"

namespace athanor::config {

// What is on disk is read part by part; features that need all of it in memory at once are refused.
void validate_offload(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const OffloadConfig& o = config.offload;
  require(o.parameters != "disk" || p.zero_stage == 3, config, "offload.parameters",
          "got disk with parallel.zero_stage = {}, expected parallel.zero_stage = 3 (also on one rank): "
          "the other stages keep every parameter in memory on every rank",
          p.zero_stage);
  const bool hybrid_whole = p.shard_degree > 0 && p.zero_stage == 1;
  require(
      o.gradients != "disk" || !hybrid_whole, config, "offload.gradients",
      "got disk with parallel.shard_degree = {} and parallel.zero_stage = 1, expected parallel.zero_stage = "
      "2 or 3, which shard gradients",
      p.shard_degree);
  require(o.gradients != "disk" || config.compression.method == "none", config, "offload.gradients",
          "got disk with compression.method = \"{}\", expected \"none\": gradients are compressed from "
          "buffers in memory",
          config.compression.method);
  for (const auto& [of, place] :
       {std::pair("offload.optimizer", &o.optimizer), std::pair("offload.activations", &o.activations)})
    require(
        *place != "host" || config.train.device == "cuda", config, of,
        "got host with train.device = \"{}\", expected train.device = \"cuda\": on a CPU everything is in "
        "host memory",
        config.train.device);
  const bool any_state =
      o.optimizer != "memory" || o.parameters == "disk" || config.optimizer.state == "8bit";
  const std::string key = o.optimizer != "memory"  ? "offload.optimizer"
                          : o.parameters == "disk" ? "offload.parameters"
                                                   : "optimizer.state";
  const std::string got = key == "optimizer.state"     ? "8bit"
                          : key == "offload.optimizer" ? o.optimizer
                                                       : "disk";
  require(
      !any_state || config.compression.method != "onebit-adam", config, key,
      "got {} with compression.method = \"onebit-adam\", expected another method: 1-bit Adam sums the whole "
      "f32 momentum in memory",
      got);
  require(got == "8bit" || !any_state || config.local_sgd.sync_interval == 0, config, key,
          "got {} with local_sgd.sync_interval = {}, expected 0: the outer optimizer reads all f32 master "
          "weights of a replica group at once",
          got, config.local_sgd.sync_interval);
  const std::tuple<const char*, const std::string&, const char*> settings[] = {
      {"offload.optimizer", o.optimizer, "memory"},
      {"offload.gradients", o.gradients, "memory"},
      {"offload.activations", o.activations, "memory"},
      {"optimizer.state", config.optimizer.state, "f32"}};
  for (const auto& [of, value, expected] : settings)
    require(config.parameter_server.servers == 0 || value == expected, config, of,
            "got {} with parameter_server.servers = {}, expected parameter_server.servers = 0: offload "
            "and 8-bit state are not there for servers and workers",
            value, config.parameter_server.servers);
}

}  // namespace athanor::config
