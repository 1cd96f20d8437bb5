// The memory plan (law 7): what a rank will need, by category, computed by running the real step on the null
// device.
//
//   const MemoryPlan plan = plan_memory({config, num_channels, rank, world_size});
//   plan.usage.peak_total      // bytes; the arena's measured peak agrees within 3 %
//
// Nothing is allocated and nothing computed: tensors get addresses, kernels do nothing. Takes milliseconds,
// also for steps of a million grains. Thread rule: pure functions. Errors: those of a bad config.
#pragma once

#include "athanor/config/config.h"
#include "athanor/tensor/arena.h"

namespace athanor {

struct PlanRequest {
  Config config;
  int64_t num_channels = 1;
  int rank = 0, world_size = 1;
  uint64_t stop_bytes =
      0;  // planning ends where more than this is needed (0: never), however absurd the request
};

struct MemoryPlan {
  PlanRequest request;
  MemoryUsage usage = {};
  uint64_t host_bytes = 0;  // of a device's run, pinned in the host's memory (offload)
  int64_t num_grains = 0;   // of this rank in a step
  bool complete = true;     // false: it ended at stop_bytes; the need is larger than usage says
};

MemoryPlan plan_memory(const PlanRequest& request);

// The plan with the recompute policies that parallel.recompute_budget leaves, as few as fit into it: attention,
// norms and activation functions of the first blocks are redone, then of all, then whole blocks, then groups of
// them. They stand in request.config.parallel.recompute of what is returned. Without a budget this is
// plan_memory(). ConfigError naming what the least would be where nothing fits.
MemoryPlan plan_recompute(const PlanRequest& request);

// What will not fit is refused before it is allocated: Error with what each category needs where `num_ranks`
// such ranks need more than available_bytes together (0: unknown), and the recompute policy that would fit.
void check_fits(const MemoryPlan& plan, int num_ranks, uint64_t available_bytes);

// plan_recompute() of one of `num_ranks` such ranks, which fit into the memory that this host has left.
MemoryPlan plan_that_fits(PlanRequest request, int num_ranks);

}  // namespace athanor
