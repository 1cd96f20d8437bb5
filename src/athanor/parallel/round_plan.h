// How one round of grains is added to the partial sums of a shard, in the fixed tree of comm/tree.h. In round k
// rank r computes grain k n + r of those that the ranks share out; the owner of a shard gets that shard's row of each
// grain, and holds the sums of the rounds before in buffers.
//
//   RoundPlanner planner({0, 5}, /*num_grains=*/5);        // all grains of the step
//   const RoundPlan plan = planner.next(/*num_rows=*/3);   // grains 0, 1, 2
//   for (const RoundPlan::Add& add : plan.adds) ...        // into += from, or into = from
//   planner.num_buffers()                                  // that the plans so far name
//   planner.left()                                         // {[0,2), [2,3)}: buffer i has node i of the tree
//
// After the last round buffer 0 has the sum of all grains, if these are all; else what is left goes to other ranks. Pure
// data (law 6).
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
  RoundPlanner(const LeafRange& grains, int64_t num_grains)
      : num_grains_(num_grains), last_(grains.second), done_(grains.first) {}
  RoundPlan next(int num_rows);  // Error beyond the last grain
  int num_buffers() const { return num_buffers_; }
  bool complete() const { return done_ == last_; }
  std::vector<LeafRange> left() const;

 private:
  struct Partial {
    LeafRange range;
    RoundPlan::Place place;
  };
  int64_t num_grains_, last_, done_;
  int num_buffers_ = 0;
  std::vector<Partial> partials_;  // left to right
};

}  // namespace athanor
