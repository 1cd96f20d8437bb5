// How one round of grains is added to the partial sums of a shard, in the fixed tree of comm/tree.h. In round k
// rank r computes grain k n + r of those that the ranks share out; the owner of a shard gets that shard's row of each
// grain, and holds the sums of the rounds before in buffers. Where each grain is computed in `parts` (context
// parallelism), row r is part r mod parts of its grain, and leaf c G + g of the tree is part c of grain g of G.
//
//   RoundPlanner planner({0, 5}, /*num_grains=*/5);        // all grains of the step
//   const RoundPlan plan = planner.next(/*num_rows=*/3);   // grains 0, 1, 2
//   for (const RoundPlan::Add& add : plan.adds) ...        // into += from, or into = from
//   planner.num_buffers()                                  // that the plans so far name
//   planner.left()                                         // {[0,2) in buffer 0, [2,3) in buffer 1}
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
  struct Node {  // of the tree
    LeafRange range;
    int buffer;
  };
  RoundPlanner(const LeafRange& grains, int64_t num_grains, int parts = 1)
      : num_grains_(num_grains), last_(grains.second), done_(grains.first), partials_(parts) {}
  RoundPlan next(int num_rows);  // Error beyond the last grain
  int num_buffers() const { return num_buffers_; }
  bool complete() const { return done_ == last_; }
  std::vector<Node> left() const;  // from left to right

 private:
  struct Partial {
    LeafRange range;
    RoundPlan::Place place;
  };
  using Partials = std::vector<Partial>;  // left to right
  void merge_last(Partials& partials, RoundPlan& plan) const;
  void meet(RoundPlan& plan);

  int64_t num_grains_, last_, done_;
  int num_buffers_ = 0;
  std::vector<Partials> partials_;  // of each part
};

}  // namespace athanor
