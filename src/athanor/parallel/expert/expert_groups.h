// Micro-batches of experts whose gradients are summed over another group than all other gradients: the ranks with the
// same experts (layout/layout.h). Says which weights these are, and numbers the experts' micro-batches in that
// group.
//
//   weights_apart(weights, /*experts=*/true);            // the weights of experts; false: all others
//   expert_micro_batches(8, /*parts=*/0, /*sharing=*/4, /*ranks=*/2);   // 4: the experts' micro-batches in a step
//
// parts > 0: so many consecutive ranks with the same experts split the tokens of one micro-batch. Micro-batches have the
// same numbers for experts as for all other weights.
// parts 0: the ep group spans data-parallel ranks. While a rank computes one micro-batch, its experts see tokens from
// the micro-batches of all ranks of its ep group. Each rank with the same experts counts as many as it computes itself,
// numbered rank after rank.
// Errors: Error if micro-batches do not split evenly (parts 0), or if ranks that should split one micro-batch have
// different ones (parts > 0). Thread rule: a plain value.
#pragma once

#include <cstdint>
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

// The experts' micro-batches in a step of num_micro_batches. `sharing`: data-parallel ranks that they are split over;
// `ranks`: how many ranks have the same experts.
inline int64_t expert_micro_batches(int64_t num_micro_batches, int parts, int sharing, int ranks) {
  if (parts > 0) return num_micro_batches;
  check(num_micro_batches % sharing == 0,
        "expert parallel: got {} micro-batches for {} ranks, expected as many on each", num_micro_batches,
        sharing);
  return num_micro_batches / sharing * ranks;
}

// Whether a rank's micro-batches fit those of its experts, each numbered as above.
inline void check_expert_micro_batches(const std::vector<int64_t>& own,
                                       const std::vector<int64_t>& of_experts, int parts) {
  check(parts > 0 ? own == of_experts : own.size() == of_experts.size(),
        "expert parallel: got an ep group whose ranks have different micro-batches, expected {} consecutive "
        "ranks with the same ones",
        parts);
}

}  // namespace athanor::parallel::expert
