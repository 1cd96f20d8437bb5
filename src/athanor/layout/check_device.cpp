// Devices: what still accesses tensors as host memory is refused. Asked before a device is opened (engine/device.h).
#include <fmt/format.h>

#include <utility>

#include "athanor/base/error.h"
#include "athanor/layout/check.h"

namespace athanor::layout {

void check_device(const Config& config, const Request& request) {
  if (config.train.device != "cuda") return;
  const auto need = [](bool fits, const std::string& got) {
    if (!fits) throw ConfigError(fmt::format("train.device = \"cuda\": got {}", got));
  };
  const ParallelConfig& layout = config.parallel;
  const OffloadConfig& offload = config.offload;
  for (const auto& [key, place] :
       {std::pair("optimizer", &offload.optimizer), std::pair("activations", &offload.activations)})
    need(*place != "disk", fmt::format("offload.{} = \"disk\", expected memory or host on a device", key));
  for (const auto& [key, place] :
       {std::pair("gradients", &offload.gradients), std::pair("parameters", &offload.parameters)})
    need(*place == "memory", fmt::format("offload.{} = \"{}\", expected memory on a device", key, *place));
  if (request.world_size == 1) return;
  const auto one = [&](const char* key, int64_t got) {
    need(got == 1, fmt::format("parallel.{} = {}, expected 1 on devices", key, got));
  };
  one("cp", layout.cp);
  one("ep", layout.ep);
  need(config.compression.method == "none",
       fmt::format("compression.method = \"{}\", expected none on devices", config.compression.method));
  need(layout.shard_degree == 0,
       fmt::format("parallel.shard_degree = {}, expected 0 on devices", layout.shard_degree));
  need(config.parameter_server.servers == 0,
       fmt::format("parameter_server.servers = {}, expected 0 on devices", config.parameter_server.servers));
  need(config.local_sgd.sync_interval == 0,
       fmt::format("local_sgd.sync_interval = {}, expected 0 on devices", config.local_sgd.sync_interval));
}

}  // namespace athanor::layout
