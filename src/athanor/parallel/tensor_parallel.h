// What the ranks of axis tp do together besides the collectives in the model: once per step the gradients of
// what they hold in common, per chunk of the loss the statistics of the softmax, and per layer of experts the choices.
//
//   apply_sharding(model, table, group);
//   ...                                                   // the step's gradients are complete
//   sum_partial_gradients(model.params(), gradient_of, group);
//   double squares = 0;
//   for (param : model.params()) if (param->is_first_copy()) squares += sum_squares(gradient_of(*param));
//   group.all_reduce(&squares, 1, Dtype::f64, "gradient norm").wait();     // counts each element once
//
// Gradients may be any same piece of each rank's gradient (a shard of ZeRO), as long as all ranks have the
// same. Errors: those of the group. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/comm/group.h"
#include "athanor/ops/moe.h"

namespace athanor {

// Of parameters whose copies have but parts of the gradient (Shard::partial): every copy gets the sum, in
// place. One all-reduce for those that all ranks hold, one all-gather for those that neighbours share.
void sum_partial_gradients(const std::vector<std::unique_ptr<Param>>& params,
                           const std::function<const Tensor&(Param&)>& gradient_of, Group& group);

// The tokens of a pass as collective_ops.h deals them out.
class DealtTokens final : public TokenDeal {
 public:
  explicit DealtTokens(Group& group) : group_(group) {}  // which outlives it
  FlatRange own(int64_t tokens) const override;
  int64_t most(int64_t tokens) const override;
  std::vector<int32_t> of_all(const Tensor& values, int64_t tokens) const override;

 private:
  Group& group_;
};

// statistics [n,3] (kernels/cross_entropy.h) of each rank's classes -> of all classes, in the order of the
// ranks.
void combine_statistics(Tensor& statistics, Group& group);

}  // namespace athanor
