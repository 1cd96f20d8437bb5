// How a rank sums the gradients of its grains in the fixed tree of comm/tree.h, grain by grain: which buffer each
// grain's gradient goes into, what is added once it is complete, and what is left for the other ranks at the end.
//
//   const PassPlan plan = plan_pass({0, 3}, /*num_grains=*/5);
//   // grain 0 into buffer 0; grain 1 into buffer 1, then 0 += 1; grain 2 into buffer 1
//   plan.left          // [0,2) in buffer 0, [2,3) in buffer 1
//
// It is the same for every weight, so in a pipeline, where weights are at different grains at a time, each follows it
// by itself. Pure data (law 6).
#pragma once

#include <vector>

#include "athanor/comm/tree.h"

namespace athanor {

struct PassPlan {
  struct Merge {
    int into, from;  // buffers
  };
  struct Grain {
    int buffer;
    std::vector<Merge> merges;  // in order
  };
  struct Partial {
    LeafRange range;
    int buffer;
  };
  std::vector<Grain> grains;
  std::vector<Partial> left;  // left to right
  int num_buffers = 1;
};

// In the tree. `grains` has one at least.
PassPlan plan_pass(const LeafRange& grains, int64_t num_grains);
// All of them into one buffer, one after the other: what is left is leaf `rank` of as many as there are ranks.
PassPlan plan_running_sum(const LeafRange& grains, int rank);

}  // namespace athanor
