// Plans how a rank sums the gradients of its micro-batches in the fixed tree of comm/tree.h: which buffer each
// micro-batch's gradient goes into, which buffers are added once it is complete, and which partial sums are left for
// the reduction over the ranks.
//
//   const PassPlan plan = plan_pass({0, 3}, /*num_micro_batches=*/5);
//   // micro-batch 0 into buffer 0; 1 into buffer 1, then 0 += 1; 2 into buffer 1
//   plan.left          // [0,2) in buffer 0, [2,3) in buffer 1
//
// The plan is the same for every weight. In a pipeline weights are at different micro-batches at one time, so each
// weight follows the plan by itself. Pure data (law 6).
#pragma once

#include <vector>

#include "athanor/comm/tree.h"

namespace athanor::parallel::data {

struct PassPlan {
  struct Merge {
    int into, from;  // buffers
  };
  struct MicroBatch {
    int buffer;
    std::vector<Merge> merges;  // in order
  };
  struct Partial {
    LeafRange range;
    int buffer;
  };
  std::vector<MicroBatch> micro_batches;
  std::vector<Partial> left;  // left to right
  int num_buffers = 1;
};

// Sums in the tree over num_micro_batches micro-batches; `micro_batches` (this rank's) has one at least.
PassPlan plan_pass(const LeafRange& micro_batches, int64_t num_micro_batches);
// A running sum: all micro-batches into one buffer, one after the other. The sum is leaf `rank` of a tree over ranks.
PassPlan plan_running_sum(const LeafRange& micro_batches, int rank);

}  // namespace athanor::parallel::data
