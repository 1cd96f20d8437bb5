// Expert parallelism: the experts of a layer are partitioned over the ranks. An all-to-all dispatches token rows to the
// experts, another one returns the results to be combined (Lepikhin et al., "GShard", 2020).
//
//   ExpertParallel exchange(group);                 // the ranks that partition the experts
//   exchange.split(*model.moe_layers()[i]);          // each layer, between declaring the model and allocating it
//   ... the experts' gradients are summed over the ranks with the same experts (data/data_parallel.h, expert_group)
//
//   dispatch   start_dispatch() starts the all-to-all, finish_dispatch() waits for it and sorts the rows by expert
//   combine    start_combine() starts the all-to-all back, finish_combine() waits for it
// The gradient of a start is the finish of the opposite all-to-all, and the reverse, so gradients overlap computation.
//
// Rank r of P has experts [r E/P, (r+1) E/P); all other parameters are replicated, and each rank has tokens of its own.
// The function is that of one process: routing, capacity, token dropping and balancing are those of whole micro-batches
// (ops/moe.h), bit for bit; products, whose rows come from all ranks, differ by rounding.
// An expert's gradient has the tokens of all P ranks: it is summed over the ranks with the same experts only.
// Traffic per rank and pass: 2 R C elements forward, as many backward, and E counts before (docs/moe.md).
// Memory: at most P N min(K, E/P) rows on a rank, N the most tokens of a rank, if all choose its experts; the memory
// plan (null device) counts that. Errors: Error where E does not divide; those of the group. All ranks make the same
// passes: a rank without tokens takes part with none. Thread rule: that of the Tape.
#pragma once

#include "athanor/comm/group.h"
#include "athanor/nn/moe.h"

namespace athanor::parallel::expert {

class ExpertParallel : public ExpertExchange {
 public:
  explicit ExpertParallel(Group& group) : group_(group) {}

  void split(MoeLayer& layer) { layer.split(*this, group_.rank(), group_.size()); }

  std::shared_ptr<DispatchPlan> plan(const Tensor& x, const Routing& routing) override;
  Var start_dispatch(const Var& rows, const std::shared_ptr<DispatchPlan>& plan) override;
  Var finish_dispatch(const Var& sent, const std::shared_ptr<DispatchPlan>& plan) override;
  Var start_combine(const Var& results, const std::shared_ptr<DispatchPlan>& plan) override;
  Var finish_combine(const Var& sent, const std::shared_ptr<DispatchPlan>& plan) override;

 private:
  Group& group_;
};

}  // namespace athanor::parallel::expert
