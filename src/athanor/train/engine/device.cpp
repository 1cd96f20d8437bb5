#include "athanor/train/engine/device.h"

#include <utility>

#include "athanor/base/check.h"
#include "athanor/comm/nccl/nccl.h"
#include "athanor/kernels/cuda/plugin.h"
#include "athanor/kernels/cuda/queue.h"

namespace athanor::train::engine {
namespace {

// Refuses features whose code still accesses tensors as host memory.
void check_fits_device(const Config& config, int num_ranks) {
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
  if (num_ranks == 1) return;
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

}  // namespace

std::unique_ptr<Queue> open_device(const Config& config, int num_ranks, const std::string& cuda_plugin,
                                   ThreadPool* pool, int device) {
  if (config.train.device != "cuda")
    return make_cpu_queue(pool, config.train.isa == "auto" ? best_isa() : parse_isa(config.train.isa));
  check_fits_device(config, num_ranks);
  try {
    return make_cuda_queue(load_cuda(cuda_plugin), device, pool);
  } catch (const Error& error) {
    throw ConfigError(fmt::format("train.device: got 'cuda', expected auto or cpu here: {}", error.what()),
                      error.hint());
  }
}

std::unique_ptr<World> open_device_world(const Config& config, World& host, const std::string& nccl_module,
                                         Queue& queue, Arena& arena, const GroupOptions& options) {
  if (queue.device() != Device::cuda) {
    if (config.parallel.transport == "nccl")
      throw ConfigError(
          "parallel.transport = \"nccl\": got ranks on the CPU, expected train.device = \"cuda\"");
    return nullptr;
  }
  if (host.size() == 1) return nullptr;
  try {
    return make_nccl_world(host, {load_nccl(nccl_module), cuda(queue), arena}, options);
  } catch (const Error& error) {
    throw ConfigError(fmt::format("parallel.transport: ranks on devices need NCCL: {}", error.what()),
                      error.hint());
  }
}

}  // namespace athanor::train::engine
