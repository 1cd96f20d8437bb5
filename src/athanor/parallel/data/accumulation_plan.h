// Plans which additions an owner of a shard makes in each accumulation step, so that gradients are summed in the fixed
// binary tree of comm/tree.h (ZeRO 2 and 3, Reduce::tree). In accumulation step k rank r of n computes micro-batch
// k n + r. The owner of a shard then receives one row of that shard for each micro-batch; the partial sums of earlier
// accumulation steps lie in its buffers.
//
//   RoundPlanner planner({0, 5}, /*num_micro_batches=*/5);        // all micro-batches of the step
//   const RoundPlan plan = planner.next(/*num_rows=*/3);   // micro-batches 0, 1, 2
//   for (const RoundPlan::Add& add : plan.adds) ...        // into += from, or into = from
//   planner.num_buffers()                                  // how many buffers the plans so far use
//   planner.left()                                         // {[0,2) in buffer 0, [2,3) in buffer 1}
//
// With context parallelism `parts` ranks split one micro-batch: row r is then part r mod parts of its micro-batch, and
// leaf c G + g of the tree is part c of micro-batch g of G. After the last accumulation step left() names the partial
// sums; it is buffer 0 alone where the planner had all micro-batches of the step, else the other replicas hold the
// rest. Pure data (law 6).
#pragma once

#include <vector>

#include "athanor/comm/tree.h"

namespace athanor::parallel::data {

struct RoundPlan {
  struct Place {
    bool is_row;  // a received row; false: a buffer
    int index;    // of the row, or of the buffer
  };
  struct Add {
    Place into, from;
    bool copy;  // into = from
  };
  std::vector<Add> adds;
};

class RoundPlanner {
 public:
  struct Node {  // a partial sum: a node of the tree
    LeafRange range;
    int buffer;
  };
  RoundPlanner(const LeafRange& micro_batches, int64_t num_micro_batches, int parts = 1)
      : num_micro_batches_(num_micro_batches),
        last_(micro_batches.second),
        done_(micro_batches.first),
        partials_(parts) {}
  RoundPlan next(int num_rows);  // of the next accumulation step; Error beyond the last micro-batch
  int num_buffers() const { return num_buffers_; }
  bool complete() const { return done_ == last_; }
  std::vector<Node> left() const;  // the partial sums so far, from left to right

 private:
  struct Partial {
    LeafRange range;
    RoundPlan::Place place;
  };
  using Partials = std::vector<Partial>;  // left to right
  void merge_last(Partials& partials, RoundPlan& plan) const;
  void meet(RoundPlan& plan);

  int64_t num_micro_batches_, last_, done_;
  int num_buffers_ = 0;
  std::vector<Partials> partials_;  // by part of a micro-batch
};

}  // namespace athanor::parallel::data
