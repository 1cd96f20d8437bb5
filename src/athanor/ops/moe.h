// The operations of a mixture of experts: route tokens, dispatch them sorted by expert, compute, combine the results.
//
//   const Var logits = router_logits(x, gate);                         // [N,E] f32
//   const RoutedTokens to = route(logits, bias, options);
//   Var rows = dispatch(x, to.routing);                                 // [R,C], sorted by expert
//   rows = expert_linear(swiglu(expert_linear(rows, w1, n), expert_linear(rows, w3, n)), w2, n);
//   Var y = combine(rows, to.weights, to.routing, x.value.shape());     // [..., C]
//
// Capacity, drops and auxiliary losses are those of the micro-batch, whichever ranks compute it. Where a pass has only
// a part of each sequence (autograd/sequence_part.h), or a rank only some rows of the pass (TokenPartition), route() is
// a collective. Memory: a dropless layer has R = N K rows for any routing, so the plan on the null device is exact;
// with a capacity the plan is an upper bound of R. Kernels: kernels/router.h, kernels/token_rows.h. Shapes: N tokens,
// C hidden size, E experts, K experts per token, R rows. Errors: Error naming the operation. Thread rule: one thread
// per Tape.
#pragma once

#include <memory>
#include <vector>

#include "athanor/autograd/tape.h"
#include "athanor/kernels/router.h"
#include "athanor/kernels/token_rows.h"

namespace athanor::ops {

// Where the tokens of one pass through one layer go.
struct Routing {
  Tensor experts;           // [N,K] i32, as the router chose
  Tensor places;            // [N,K] i32, the row of each choice; -1: dropped
  Tensor tokens;            // [R] i32, the token of each row
  ExpertCounts counts;      // [E]
  int64_t most_tokens = 0;  // the most tokens of such a pass on any rank (N or more)
  int64_t capacity = 0;     // tokens of the micro-batch that an expert takes at most; 0: no limit
  // Sums over the tokens, without coefficients: the load-balancing loss E . sum_e share_e . score_e (1 per token under
  // an even load) and the z-loss.
  double aux_loss = 0.0, z_loss = 0.0;
};

struct RouteOptions {
  RouterOptions router;
  int64_t experts_per_token = 2;
  // An expert takes at most ceil(factor N K / E) tokens of a training pass; 0: dropless. Outside training nothing is
  // dropped, so that the loss of a sequence does not depend on the others in its batch.
  double capacity_factor = 0.0;
};

// How ranks partition the rows of a pass (sequence parallelism). parallel/tensor/tensor_parallel.h implements it over a
// Group.
class TokenPartition {
 public:
  virtual ~TokenPartition() = default;
  virtual FlatRange own(int64_t tokens) const = 0;  // rows of this rank
  virtual int64_t most(int64_t tokens) const = 0;   // the most rows on any rank
  // All-gather of values [n,K] i32 of own(tokens) to [tokens,K]. Not called on the null device.
  virtual std::vector<int32_t> of_all(const Tensor& values, int64_t tokens) const = 0;
};

struct RoutedTokens {
  Var weights;  // [N,K] f32
  std::shared_ptr<const Routing> routing;
};

// x [..., C], gate [E,C] -> x . gate^T as [N,E] f32
Var router_logits(const Var& x, Weight& gate);

// logits [N,E] f32, bias [E] f32 or null (affects the choice of experts, not the weights). With `partition` the N
// tokens are this rank's rows of the pass; null: all of them.
RoutedTokens route(const Var& logits, const Tensor* bias, const RouteOptions& options,
                   const TokenPartition* partition = nullptr);

// x [..., C] -> [R,C]
Var dispatch(const Var& x, const std::shared_ptr<const Routing>& routing);

// x [R,I], rows sorted by expert, weight [E,O,I], counts [E] -> [R,O]: rows of expert e times weight[e]^T
Var expert_linear(const Var& x, Weight& weight, const std::vector<int64_t>& counts);

// x [R,C], weights [N,K] -> `shape`, [..., C] of N tokens: the weighted sum of each token's rows
Var combine(const Var& x, const Var& weights, const std::shared_ptr<const Routing>& routing,
            const Shape& shape);

}  // namespace athanor::ops
