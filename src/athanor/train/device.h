// Where a run computes: train.device as a queue.
//
//   auto queue = open_device(config, world.size(), io.cuda_plugin, &pool);
//
// "cpu" and "auto" are the CPU: no kernel of the other column has run on a real device yet (docs/cuda.md), so nobody
// gets it unasked. "cuda" is a device of the machine for each rank, which share the samples, the state
// (parallel.zero_stage), layers (tp, sp) and depth (pp).
// Errors: ConfigError where the config does not fit a device, or there is none that can serve. Thread rule: a plain
// function.
#pragma once

#include <memory>
#include <string>

#include "athanor/base/thread_pool.h"
#include "athanor/comm/options.h"
#include "athanor/comm/world.h"
#include "athanor/config/config.h"
#include "athanor/kernels/table.h"

namespace athanor {

// `device`: of the machine's, the rank's number on its host.
std::unique_ptr<Queue> open_device(const Config& config, int num_ranks, const std::string& cuda_plugin,
                                   ThreadPool* pool, int device = 0);

// The ranks' groups that take the memory of their devices, over NCCL (comm/nccl.h), beside those of the host's world;
// null where the queue is the CPU's or there is one rank.
std::unique_ptr<World> open_device_world(const Config& config, World& host, const std::string& nccl_module,
                                         Queue& queue, Arena& arena, const GroupOptions& options = {});

}  // namespace athanor
