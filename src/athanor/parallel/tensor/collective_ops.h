// Collectives as differentiable operations for tensor and sequence parallelism, named by their forward pass; the
// backward pass is the conjugate collective (Shoeybi et al., "Megatron-LM", 2019; Korthikanti et al., "Reducing
// activation recomputation in large transformer models", 2022). `group`: the ranks of axis tp. Layouts in DTensor's
// words:
//   replicated   the same value on every rank
//   partial      the value is the sum of the ranks' tensors
//   sharded      each rank has a part of the tokens (sequence parallelism)
//
//   name                before -> after            forward           gradient: before <- after    backward
//   copy_to             replicated -> replicated   nothing           replicated <- partial        all-reduce
//   reduce_from         partial -> replicated      all-reduce        replicated <- replicated     nothing
//   gather_to_partial   sharded -> replicated      all-gather        sharded <- partial           reduce-scatter
//   reduce_scatter      partial -> sharded         reduce-scatter    replicated <- sharded        all-gather
//   scatter_to          replicated -> sharded      take own part     replicated <- sharded        all-gather
//   gather_to_whole     sharded -> replicated      all-gather        sharded <- replicated        take own part
//   drop_padding        sharded -> own rows        nothing           sharded <- own rows          nothing
//   add_padding         own rows -> sharded        nothing           own rows <- sharded          nothing
//
// After copy_to and gather_to_partial ranks compute different parts, so each rank's gradient is partial. After
// reduce_from and gather_to_whole all ranks compute the same, so the gradient is replicated.
// Sharded tokens: of the N = B*S rows of [B,S,C], rank r has rows [r n, (r+1) n) as [n,C], n = ceil(N/P). Rows past N
// are padding: zero if a sum made them, with a zero gradient, and never part of a replicated value. "Own rows" are
// sharded rows without padding: [m,C], m <= n, none on ranks without tokens.
// Sums are f32, also of bf16 and f16, rounded once, in the order of the ranks. On the null device nothing moves; a
// group of one is the identity. Errors: those of the group; Error for a pass whose PassContext does not say its number
// of tokens. Every rank runs the same operations in the same order. Thread rule: that of the Tape.
#pragma once

#include <algorithm>

#include "athanor/autograd/tape.h"
#include "athanor/comm/group.h"

namespace athanor::parallel::tensor {

Var copy_to(const Var& x, Group& group);            // x [...]
Var reduce_from(const Var& x, Group& group);        // x [...]
Var gather_to_partial(const Var& x, Group& group);  // x [n,C] -> [B,S,C]
Var reduce_scatter(const Var& x, Group& group);     // x [B,S,C] -> [n,C]
// Only the tape entry of reduce_scatter, for a result x [n,C] that is already computed; its gradient has shape `whole`.
Var scattered(const Var& x, const Shape& whole, Group& group);
Var scatter_to(const Var& x, Group& group);       // x [B,S,C] -> [n,C]
Var gather_to_whole(const Var& x, Group& group);  // x [n,C] -> [B,S,C]
Var drop_padding(const Var& x, Group& group);     // x [n,C] -> [m,C]
Var add_padding(const Var& x, Group& group);      // x [m,C] -> [n,C]

// Of `tokens` sharded over `ranks`: partitioned_rows is the rows per rank with padding, own_rows one rank's rows without it.
inline int64_t partitioned_rows(int64_t tokens, int ranks) {
  return (tokens + ranks - 1) / ranks;
}
inline FlatRange own_rows(int64_t tokens, int rank, int ranks) {
  const int64_t n = partitioned_rows(tokens, ranks);
  return {std::min(tokens, rank * n), std::min(tokens, (rank + 1) * n)};
}

}  // namespace athanor::parallel::tensor
