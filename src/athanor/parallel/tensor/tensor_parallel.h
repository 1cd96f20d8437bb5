// Tensor parallelism beside the collectives in the model (collective_ops.h): once a step the sum of partial gradients
// of replicated parameters, in the loss the combination of softmax statistics, in expert layers the choices of all
// tokens.
//
//   apply_sharding(model, table, group);
//   ...                                                   // the step's gradients are complete
//   sum_partial_gradients(model.params(), gradient_of, group);
//   double squares = 0;
//   for (const auto& param : model.params()) if (param->is_first_copy()) squares += sum_squares(gradient_of(*param));
//   group.all_reduce(&squares, 1, Dtype::f64, "gradient norm").wait();     // counts each element once
//
// gradient_of may return a shard (ZeRO), the same elements on all ranks. Errors: those of the group. Thread rule: one
// thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/comm/group.h"
#include "athanor/ops/moe.h"

namespace athanor::parallel::tensor {

// Sums partial gradients of replicated parameters (Shard::partial) in place, on every rank that has a copy. Sends one
// all-reduce for parameters that all ranks have, one all-gather for those that only some consecutive ranks have.
void sum_partial_gradients(const std::vector<std::unique_ptr<Param>>& params,
                           const std::function<const Tensor&(Param&)>& gradient_of, Group& group);

// The tokens of a pass as collective_ops.h shards them.
class PartitionedTokens final : public TokenPartition {
 public:
  explicit PartitionedTokens(Group& group) : group_(group) {}  // the group outlives it
  FlatRange own(int64_t tokens) const override;
  int64_t most(int64_t tokens) const override;
  std::vector<int32_t> of_all(const Tensor& values, int64_t tokens) const override;

 private:
  Group& group_;
};

// Vocabulary-parallel softmax: statistics [n,3] (kernels/cross_entropy.h) over this rank's classes become those over
// all classes, combined in the order of the ranks.
void combine_statistics(Tensor& statistics, Group& group);

}  // namespace athanor::parallel::tensor
