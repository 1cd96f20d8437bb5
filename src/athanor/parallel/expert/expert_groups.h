// Micro-batches of experts whose gradients are summed over another group than all other gradients: the ranks with the
// same experts (axis edp of comm/mesh.h). Says which weights these are, and numbers the experts' micro-batches in that
// group.
//
//   weights_apart(weights, /*experts=*/true);            // the weights of experts; false: all others
//   ExpertMicroBatches micro_batches(/*parts=*/0);                    // ranks of an ep group have different micro-batches
//   micro_batches.in_step(8, /*sharing=*/4, /*ranks=*/2);       // 4: the experts' micro-batches in a step
//   micro_batches.begin({2, 3}, {0, 1});                        // this rank's micro-batches, and the numbers for its experts
//   micro_batches.of(3);                                        // 1
//
// parts > 0: so many consecutive ranks of the edp group split the tokens of one micro-batch. Micro-batches have the
// same numbers for experts as for all other weights.
// parts 0: the ep group spans data-parallel ranks. While a rank computes one micro-batch, its experts see tokens from
// the micro-batches of all ranks of its ep group. Each rank of the edp group counts as many as it computes itself,
// numbered rank after rank.
// Errors: Error if micro-batches do not split evenly (parts 0), or if ranks that should split one micro-batch have
// different ones (parts > 0). Thread rule: a plain value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/base/check.h"

namespace athanor::parallel::expert {

inline std::vector<Weight*> weights_apart(const std::vector<Weight*>& weights, bool experts) {
  std::vector<Weight*> some;
  for (Weight* weight : weights)
    if (weight->param().is_stack() == experts) some.push_back(weight);
  return some;
}

class ExpertMicroBatches {
 public:
  explicit ExpertMicroBatches(int parts = 0) : parts_(parts) {}
  int parts() const { return parts_; }

  // The experts' micro-batches in a step of num_micro_batches. `sharing`: data-parallel ranks that they are split over;
  // `ranks`: how many ranks have the same experts.
  int64_t in_step(int64_t num_micro_batches, int sharing, int ranks) const {
    if (parts_ > 0) return num_micro_batches;
    check(num_micro_batches % sharing == 0,
          "expert parallel: got {} micro-batches for {} ranks, expected as many on each", num_micro_batches,
          sharing);
    return num_micro_batches / sharing * ranks;
  }
  void begin(std::vector<int64_t> own, std::vector<int64_t> of_experts) {
    check(
        parts_ > 0 ? own == of_experts : own.size() == of_experts.size(),
        "expert parallel: got an ep group whose ranks have different micro-batches, expected {} consecutive "
        "ranks with the same ones",
        parts_);
    own_ = std::move(own);
    of_experts_ = std::move(of_experts);
  }
  int64_t of(int64_t micro_batch) const {
    return of_experts_.at(
        static_cast<size_t>(std::find(own_.begin(), own_.end(), micro_batch) - own_.begin()));
  }

 private:
  int parts_;
  std::vector<int64_t> own_, of_experts_;
};

}  // namespace athanor::parallel::expert
