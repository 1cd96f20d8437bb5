// Where a run computes: train.device as a queue, and the device's process groups.
//
//   auto queue = open_device(config, world.size(), io.cuda_plugin, &pool);
//
// "cpu" and "auto" are the CPU: not every layout has a device's side yet (docs/cuda.md), so only "cuda" selects
// them. With "cuda" every rank has a device of its own; several ranks may use dp, ZeRO, tp, sp and pp.
// Errors: ConfigError where the config does not fit a device, or no device can be used. Thread rule: a plain function.
#pragma once

#include <memory>
#include <string>

#include "athanor/base/thread_pool.h"
#include "athanor/comm/options.h"
#include "athanor/comm/world.h"
#include "athanor/config/config.h"
#include "athanor/kernels/table.h"

namespace athanor::engine {

// `device`: the index of the device on its host, which is the rank's number on that host (local rank).
std::unique_ptr<Queue> open_device(const Config& config, int num_ranks, const std::string& cuda_plugin,
                                   ThreadPool* pool, int device = 0);

// Free memory of the queue's own device; 0 where tensors lie in the host's.
uint64_t free_device_bytes(Queue& queue);

// Groups whose collectives work on device memory, over NCCL (comm/nccl/nccl.h), beside the groups of the `host` world.
// Null where the queue is the CPU's or there is one rank.
std::unique_ptr<World> open_device_world(const Config& config, World& host, const std::string& nccl_module,
                                         Queue& queue, Arena& arena, const GroupOptions& options = {});

}  // namespace athanor::engine
