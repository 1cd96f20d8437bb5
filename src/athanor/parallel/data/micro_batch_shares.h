// Which micro-batches of a step each data-parallel rank computes (consecutive ones, rank after rank), and which leaves
// of the fixed tree (comm/tree.h) their gradients are.
//
//   MicroBatchShares shares(group, /*parts=*/2);                // ranks 0 and 1 split the tokens of the same micro-batches
//   shares.set({5, 3});                                    // micro-batches of each pair; the default is an even split
//   shares.micro_batches(8, /*rank=*/2);                          // [5, 8)
//   shares.leaves(8, /*rank=*/3);                          // [13, 16) of 16
//
// With context parallelism `parts` consecutive ranks split one micro-batch by tokens. Part c of micro-batch g of G is
// leaf c G + g: a rank's leaves are consecutive, and no leaf depends on which rank computes it.
// Errors: counts for another number of ranks, or whose sum is not the number of micro-batches.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/comm/tree.h"

namespace athanor::parallel::data {

class MicroBatchShares {
 public:
  MicroBatchShares(const Group& group, int parts) : MicroBatchShares(group.size(), group.rank(), parts) {}
  MicroBatchShares(int ranks, int own, int parts) : ranks_(ranks), own_(own), parts_(parts) {}
  void set(std::vector<int64_t> counts) { counts_ = std::move(counts); }
  bool are_set() const { return !counts_.empty(); }

  LeafRange micro_batches(int64_t num_micro_batches, int rank) const;
  LeafRange leaves(int64_t num_micro_batches, int rank) const;
  LeafRange own_leaves(int64_t num_micro_batches) const { return leaves(num_micro_batches, own_); }
  std::vector<int64_t> own_micro_batches(int64_t num_micro_batches) const;
  int64_t num_leaves(int64_t num_micro_batches) const { return num_micro_batches * parts_; }

 private:
  int ranks_, own_, parts_;
  std::vector<int64_t> counts_;  // empty: an even split
};

}  // namespace athanor::parallel::data
