// Which grains of a step each rank of a group takes, neighbours rank after rank, and which leaves of the fixed tree
// (comm/tree.h) their gradients are. Where `parts` neighbours compute one grain, each its tokens (context parallelism),
// the leaves are c G + g, part c of grain g of G; so each rank's are neighbours, and they do not depend on how grains are
// shared out.
//
//   GrainShares shares(group, /*parts=*/2);                // ranks 0 and 1 take the same grains
//   shares.set({5, 3});                                    // how many each such pair takes; at first evenly
//   shares.grains(8, /*rank=*/2);                          // [5, 8)
//   shares.leaves(8, /*rank=*/3);                          // [13, 16) of 16
//
// Errors: counts that are not those of all who share out the grains, or not of the grains of the step.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/comm/tree.h"

namespace athanor {

class GrainShares {
 public:
  GrainShares(const Group& group, int parts) : GrainShares(group.size(), group.rank(), parts) {}
  GrainShares(int ranks, int own, int parts) : ranks_(ranks), own_(own), parts_(parts) {}
  void set(std::vector<int64_t> counts) { counts_ = std::move(counts); }
  bool are_set() const { return !counts_.empty(); }

  LeafRange grains(int64_t num_grains, int rank) const;
  LeafRange leaves(int64_t num_grains, int rank) const;
  LeafRange own_leaves(int64_t num_grains) const { return leaves(num_grains, own_); }
  std::vector<int64_t> own_grains(int64_t num_grains) const;
  int64_t own_leaf(int64_t grain, int64_t num_grains) const { return own_ % parts_ * num_grains + grain; }
  int64_t num_leaves(int64_t num_grains) const { return num_grains * parts_; }

 private:
  int ranks_, own_, parts_;
  std::vector<int64_t> counts_;  // empty: evenly
};

}  // namespace athanor
