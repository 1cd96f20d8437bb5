// Expert parallelism: the experts of a layer lie on different ranks, and rows of tokens travel to them and back, by one
// all-to-all each way (Lepikhin et al., GShard, 2020).
//
//   ExpertParallel exchange(group);                 // the ranks that split the experts between them
//   exchange.split(*model.moe_layers()[i]);          // each layer, between declaring the model and allocating it
//   sum_over(copies of the experts, expert gradients) ...   // as data parallelism does, over ranks with the same experts
//
// Rank r of P holds experts [r E/P, (r+1) E/P); everything else is whole on every rank, and each rank has tokens of its
// own. The function is that of one process: routing, capacity, drops and balancing are those of whole grains (ops/moe.h),
// bit for bit; products, whose rows come together from all ranks, differ by rounding.
// An expert's gradient holds the tokens of all P ranks: it is summed over the ranks with the same experts only.
// A pass costs each rank 2 R C elements out and back forward, as many backward, and P counts before
// (docs/moe.md). The gradients of rows travel while the shared expert's are computed, like the rows.
// Memory: rows at a rank are at most P N min(K, E/P), N the most tokens of a rank, if all choose its experts; the plan
// of the null device counts that. Errors: Error where E does not divide; those of the group. All ranks make the same
// passes: those without tokens of their own take part with none. Thread rule: that of the Tape.
#pragma once

#include "athanor/comm/group.h"
#include "athanor/nn/moe.h"

namespace athanor {

class ExpertParallel : public ExpertExchange {
 public:
  explicit ExpertParallel(Group& group) : group_(group) {}

  void split(MoeLayer& layer) { layer.split(*this, group_.rank(), group_.size()); }

  std::shared_ptr<ExpertTrip> plan(const Tensor& x, const Routing& routing) override;
  Var depart(const Var& rows, const std::shared_ptr<ExpertTrip>& trip) override;
  Var arrive(const Var& away, const std::shared_ptr<ExpertTrip>& trip) override;
  Var depart_home(const Var& results, const std::shared_ptr<ExpertTrip>& trip) override;
  Var come_home(const Var& away, const std::shared_ptr<ExpertTrip>& trip) override;

 private:
  Group& group_;
};

}  // namespace athanor
