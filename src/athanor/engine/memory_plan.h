// The memory plan (law 7): how much memory a rank will need, by category, found by running the real step on the null
// device.
//
//   const MemoryPlan plan = plan_memory({config, num_channels, rank, world_size});
//   print(plan.usage.peak_total);      // bytes; the arena's measured peak agrees within 3 %
//
// Nothing is allocated and nothing computed: tensors get addresses, kernels do nothing. Takes milliseconds, also for
// steps of a million micro-batches: without a pipeline a few of them are enough to know the peak. Errors: ConfigError
// for a config that cannot run. Thread rule: pure functions.
#pragma once

#include <optional>

#include "athanor/config/config.h"
#include "athanor/engine/snapshot_slots.h"
#include "athanor/layout/layout.h"
#include "athanor/tensor/arena.h"

namespace athanor::engine {

struct PlanRequest {
  Config config;
  int64_t num_channels = 1;
  int rank = 0, world_size = 1;
  std::optional<Layout> layout = {};  // none: that of the config on world_size ranks
  uint64_t stop_bytes = 0;            // planning ends once the need exceeds this; 0: no limit
  // Of a segment of a run (run/segment.h): the bytes of the snapshot that it starts from, and whether it leaves one.
  uint64_t snapshot_before_bytes = 0;
  bool snapshot_after = false;
  SnapshotChoice snapshot = {};  // while it trains
  uint64_t device_bytes = 0;     // free on the device that the rank has for itself; 0: ranks share the host's
};

struct MemoryPlan {
  PlanRequest request;
  Layout layout;
  MemoryUsage usage = {};
  uint64_t host_bytes = 0;        // pinned host memory of a run on a device (offload)
  uint64_t snapshot_bytes = 0;    // of the snapshot that it leaves
  SnapshotPlan slots = {};        // that keep its steps
  int64_t num_micro_batches = 0;  // micro-batches of this rank in a step
  bool complete = true;           // false: planning ended at stop_bytes; the need is larger than `usage`
};

MemoryPlan plan_memory(const PlanRequest& request);

// The slots alone. `layout`: of the run.
SnapshotPlan plan_snapshot(const Config& config, const Layout& layout, int rank,
                           const SnapshotChoice& choice);

// The plan with the least recompute that fits into parallel.recompute_budget. Policies, in this order: selective
// recompute (attention, norms, activation functions) of the first blocks, of all blocks, full recompute of blocks, then
// of groups of blocks. The policy chosen is layout.recompute of the result. Without a budget this is
// plan_memory(). ConfigError naming the smallest need where no policy fits.
MemoryPlan plan_recompute(const PlanRequest& request);

// Refuses a run before it allocates: Error where `num_ranks` such ranks together need more than available_bytes (0:
// unknown, no check). The message has the need of each category and a recompute policy that would fit.
void check_fits(const MemoryPlan& plan, int num_ranks, uint64_t available_bytes);

// plan_recompute() of one of `num_ranks` such ranks on this host, and check_fits() against the host's free memory, or its
// device's.
MemoryPlan plan_that_fits(PlanRequest request, int num_ranks);

}  // namespace athanor::engine
