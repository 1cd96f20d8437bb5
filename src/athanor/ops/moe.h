// The operations of a mixture of experts: choose, sort the tokens by expert, compute, put them back.
//
//   const Var logits = router_logits(x, gate);                         // [N,E] f32
//   const RoutedTokens to = route(logits, bias, options);
//   Var rows = dispatch(x, to.routing);                                 // [R,C], sorted by expert
//   rows = expert_linear(swiglu(expert_linear(rows, w1, n), expert_linear(rows, w3, n)), w2, n);   // n: of each expert
//   Var y = combine(rows, to.weights, to.routing, x.value.shape());     // [..., C]
//
// What a pass (a grain) computes depends on its tokens alone: capacity, drops and auxiliary losses are those of its
// tokens in their order; where the pass has only a part of the grain's (sequence_part.h), or the rank only some of the
// pass's rows (TokenDeal), those of all of them, and route() is a collective. Memory: dropless, R = N K whatever the
// routing, so the plan of the null device is exact in rows; with a capacity R is at most what it plans. Kernels:
// kernels/router.h, kernels/token_rows.h. Shapes: N tokens, C width, E experts, K experts per token, R rows. Thread
// rule: one thread per Tape.
#pragma once

#include <memory>
#include <vector>

#include "athanor/autograd/tape.h"
#include "athanor/kernels/router.h"
#include "athanor/kernels/token_rows.h"

namespace athanor {

// Where the tokens of one pass through one layer go.
struct Routing {
  Tensor experts;           // [N,K] i32, as the router chose
  Tensor places;            // [N,K] i32, the row of each choice, -1: dropped
  Tensor tokens;            // [R] i32, the token of each row
  ExpertCounts counts;      // [E]
  int64_t most_tokens = 0;  // that a rank has of such a pass, N or more
  int64_t capacity = 0;     // of an expert in the grain; 0: any
  // Sums over the tokens of the load-balancing loss E . sum_e share_e . score_e (1 a token where all is even) and of
  // the z-loss, without their coefficients.
  double aux_loss = 0.0, z_loss = 0.0;
};

struct RouteOptions {
  RouterOptions router;
  int64_t experts_per_token = 2;
  // An expert takes at most ceil(factor N K / E) tokens of a training pass; 0: all of them. Outside training
  // nothing is dropped, so that a sequence scores alike alone and in company.
  double capacity_factor = 0.0;
};

// The rows of a pass, dealt out over ranks. Its implementation over a Group is in parallel/tensor_parallel.h.
class TokenDeal {
 public:
  virtual ~TokenDeal() = default;
  virtual FlatRange own(int64_t tokens) const = 0;  // this rank's
  virtual int64_t most(int64_t tokens) const = 0;   // that a rank has
  // values [n,K] i32 of own(tokens) -> [tokens,K] of all ranks, in order. A collective; not called on the null device.
  virtual std::vector<int32_t> of_all(const Tensor& values, int64_t tokens) const = 0;
};

struct RoutedTokens {
  Var weights;  // [N,K] f32
  std::shared_ptr<const Routing> routing;
};

// x [..., C], gate [E,C] -> x . gate^T as [N,E] f32
Var router_logits(const Var& x, Weight& gate);

// logits [N,E] f32, bias [E] f32 or null (moves the choice, not the weights); of all tokens of the pass, or of this rank's
RoutedTokens route(const Var& logits, const Tensor* bias, const RouteOptions& options,
                   const TokenDeal* deal = nullptr);

// x [..., C] -> [R,C]
Var dispatch(const Var& x, const std::shared_ptr<const Routing>& routing);

// x [R,I], rows sorted by expert, weight [E,O,I], counts [E] -> [R,O]: rows of expert e times weight[e]^T
Var expert_linear(const Var& x, Weight& weight, const std::vector<int64_t>& counts);

// x [R,C], weights [N,K] -> `shape`, [..., C] of N tokens: the weighted sum of each token's rows
Var combine(const Var& x, const Var& weights, const std::shared_ptr<const Routing>& routing,
            const Shape& shape);

}  // namespace athanor
