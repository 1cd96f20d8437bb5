// Collectives as differentiable operations, named by what they are forward; each has its conjugate as
// gradient. `group` is the ranks that share a model (axis tp). "Whole" values are the same on every rank; of
// "addends" each rank has one and the value is their sum; "dealt" tokens lie one part on each rank.
//
//   name                before -> after        forward           gradient: before <- after       backward
//   copy_to             whole -> whole         nothing           whole <- addends                all-reduce
//   reduce_from         addends -> whole       all-reduce        whole <- whole                  nothing
//   gather_to_partial   dealt -> whole         all-gather        dealt <- addends                reduce-scatter
//   reduce_scatter      addends -> dealt       reduce-scatter    whole <- dealt                  all-gather
//   scatter_to          whole -> dealt         take one's part   whole <- dealt                  all-gather
//   gather_to_whole     dealt -> whole         all-gather        dealt <- whole                  take one's part
//   drop_padding        dealt -> own rows      nothing           dealt <- own rows               nothing
//   add_padding         own rows -> dealt      nothing           own rows <- dealt               nothing
//
// What follows copy_to and gather_to_partial is computed in parts (each rank's gradient is an addend); what
// follows reduce_from and gather_to_whole is computed alike on every rank (its gradient is whole). Tokens
// [B,S,C] of a pass are dealt flat: of the N = B*S rows, rank r has rows [r*n, (r+1)*n) as [n,C], n =
// ceil(N/P); rows past N are padding: zero where a sum made them, with a zero gradient, never part of a whole
// value. "Own rows" are dealt ones without padding: [m,C], m <= n, none where there are fewer tokens than ranks. Sums
// are f32, also of bf16 and f16, rounded once, in the order of the ranks. On the null device nothing moves; a group of
// one is the identity. Errors: those of the group; a pass whose context does not say its tokens. Every rank of the group
// runs the same operations in the same order. Thread rule: that of the Tape. After Shoeybi et al., "Megatron-LM", 2019,
// and Korthikanti et al., "Reducing activation recomputation", 2022.
#pragma once

#include <algorithm>

#include "athanor/autograd/tape.h"
#include "athanor/comm/group.h"

namespace athanor {

Var copy_to(const Var& x, Group& group);            // x [...]
Var reduce_from(const Var& x, Group& group);        // x [...]
Var gather_to_partial(const Var& x, Group& group);  // x [n,C] -> [B,S,C]
Var reduce_scatter(const Var& x, Group& group);     // x [B,S,C] -> [n,C]
// The second half of reduce_scatter, where the first has been done: x [n,C], the gradient before it [whole].
Var scattered(const Var& x, const Shape& whole, Group& group);
Var scatter_to(const Var& x, Group& group);       // x [B,S,C] -> [n,C]
Var gather_to_whole(const Var& x, Group& group);  // x [n,C] -> [B,S,C]
Var drop_padding(const Var& x, Group& group);     // x [n,C] -> [m,C]
Var add_padding(const Var& x, Group& group);      // x [m,C] -> [n,C]

// The rows that each rank has of `tokens` that are dealt out; those of one rank, without padding.
inline int64_t dealt_rows(int64_t tokens, int ranks) {
  return (tokens + ranks - 1) / ranks;
}
inline FlatRange own_rows(int64_t tokens, int rank, int ranks) {
  const int64_t n = dealt_rows(tokens, ranks);
  return {std::min(tokens, rank * n), std::min(tokens, (rank + 1) * n)};
}

}  // namespace athanor
