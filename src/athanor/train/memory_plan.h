// The memory plan (law 7): what a rank will need, by category, computed by running the real step on the null
// device.
//
//   const MemoryPlan plan = plan_memory(config, num_channels, rank, world_size);
//   plan.usage.peak_total      // bytes; the arena's measured peak agrees within 3 %
//
// Nothing is allocated and nothing computed: tensors get addresses, kernels do nothing. Takes milliseconds
// for small models, a second for billions of parameters. Thread rule: pure function. Errors: those of a bad
// config.
#pragma once

#include "athanor/config/config.h"
#include "athanor/tensor/arena.h"

namespace athanor {

struct MemoryPlan {
  MemoryUsage usage;
  int64_t num_grains = 0;  // of this rank in a step
};

MemoryPlan plan_memory(const Config& config, int64_t num_channels, int rank, int world_size);

// What will not fit is refused before it is allocated: Error with what each category needs where `num_ranks`
// such ranks need more than available_bytes together (0: unknown).
void check_fits(const MemoryPlan& plan, int num_ranks, uint64_t available_bytes);
uint64_t available_memory_bytes();  // of this machine, swap included; 0 where it does not say

}  // namespace athanor
