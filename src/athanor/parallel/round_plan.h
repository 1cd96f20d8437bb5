// How one round of grains is added to the partial sums of a shard, in the fixed tree of comm/tree.h. In round k
// rank r computes grain k n + r; the owner of a shard gets that shard's row of each grain, and holds the sums of the
// rounds before in buffers.
//
//   RoundPlanner planner(/*num_grains=*/5);
//   const RoundPlan plan = planner.next(/*num_rows=*/3);   // grains 0, 1, 2
//   for (const RoundPlan::Add& add : plan.adds) ...        // into += from, or into = from
//   planner.num_buffers()                                  // that the plans so far name
//
// After the last round buffer 0 has the sum of all grains. Pure data (law 6).
#pragma once

#include <vector>

#include "athanor/comm/tree.h"

namespace athanor {

struct RoundPlan {
  struct Place {
    bool is_row;
    int index;  // of the row, or of the buffer
  };
  struct Add {
    Place into, from;
    bool copy;  // into = from
  };
  std::vector<Add> adds;
};

class RoundPlanner {
 public:
  explicit RoundPlanner(int64_t num_grains) : num_grains_(num_grains) {}
  RoundPlan next(int num_rows);  // Error beyond the last grain
  int num_buffers() const { return num_buffers_; }
  bool complete() const { return done_ == num_grains_; }

 private:
  struct Partial {
    LeafRange range;
    RoundPlan::Place place;
  };
  int64_t num_grains_, done_ = 0;
  int num_buffers_ = 0;
  std::vector<Partial> partials_;  // left to right
};

}  // namespace athanor
