#include "athanor/engine/device.h"

#include <utility>

#include "athanor/base/error.h"
#include "athanor/comm/nccl/nccl.h"
#include "athanor/kernels/cuda/plugin.h"
#include "athanor/kernels/cuda/queue.h"
#include "athanor/layout/check.h"
#include "athanor/tensor/device_memory.h"

namespace athanor::engine {
std::unique_ptr<Queue> open_device(const Config& config, int num_ranks, const std::string& cuda_plugin,
                                   ThreadPool* pool, int device) {
  if (config.train.device != "cuda")
    return make_cpu_queue(pool, config.train.isa == "auto" ? best_isa() : parse_isa(config.train.isa));
  check_device(config, {.layout = {}, .world_size = num_ranks});
  try {
    return make_cuda_queue(load_cuda(cuda_plugin), device, pool);
  } catch (const Error& error) {
    throw ConfigError(fmt::format("train.device: got 'cuda', expected auto or cpu here: {}", error.what()),
                      error.hint());
  }
}

uint64_t free_device_bytes(Queue& queue) {
  return queue.device_memory() == nullptr ? 0 : queue.device_memory()->free_bytes();
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

}  // namespace athanor::engine
