// Where gradients of experts are summed over other ranks than everything else (comm/mesh.h, edp): which weights these are,
// and how they number the grains of a step.
//
//   weights_apart(weights, /*experts=*/true);            // the stacks; false: all others
//   ExpertGrains grains(/*parts=*/0);                    // ranks of an ep group have other grains
//   grains.in_step(8, /*sharing=*/4, /*ranks=*/2);       // 4: of the experts of a rank
//   grains.begin({2, 3}, {0, 1});                        // this rank's of everything else, and of its experts
//   grains.of(3);                                        // 1
//
// parts > 0: so many neighbours of those with the same experts compute the same grains, each its tokens, and grains have
// the number that they have everywhere. parts 0: what a rank's experts see while it computes a grain is a part of those of
// all ranks of its ep group; every rank takes as many of its own, and these are numbered rank after rank.
// Errors: Error for grains that are not shared out evenly (parts 0), or that ranks with the same experts do not share
// (parts > 0). Thread rule: a plain value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/base/check.h"

namespace athanor {

inline std::vector<Weight*> weights_apart(const std::vector<Weight*>& weights, bool experts) {
  std::vector<Weight*> some;
  for (Weight* weight : weights)
    if (weight->param().is_stack() == experts) some.push_back(weight);
  return some;
}

class ExpertGrains {
 public:
  explicit ExpertGrains(int parts = 0) : parts_(parts) {}
  int parts() const { return parts_; }

  // Of num_grains that `sharing` ranks, or sets of neighbours, share out, where `ranks` have the same experts.
  int64_t in_step(int64_t num_grains, int sharing, int ranks) const {
    if (parts_ > 0) return num_grains;
    check(num_grains % sharing == 0,
          "expert parallel: got {} micro-batches for {} ranks, expected as many on each", num_grains,
          sharing);
    return num_grains / sharing * ranks;
  }
  void begin(std::vector<int64_t> own, std::vector<int64_t> of_experts) {
    check(parts_ > 0 ? own == of_experts : own.size() == of_experts.size(),
          "expert parallel: got experts on ranks with other micro-batches, expected {} neighbours with the "
          "same",
          parts_);
    own_ = std::move(own);
    of_experts_ = std::move(of_experts);
  }
  int64_t of(int64_t grain) const {
    return of_experts_.at(static_cast<size_t>(std::find(own_.begin(), own_.end(), grain) - own_.begin()));
  }

 private:
  int parts_;
  std::vector<int64_t> own_, of_experts_;
};

}  // namespace athanor
