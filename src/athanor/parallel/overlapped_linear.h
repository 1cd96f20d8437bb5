// Row-cut products whose sums over the ranks are under way while they are made: the rows of x are cut into chunks, and
// while one chunk's sum travels the next is multiplied.
//
//   linear_reduce_from(x, weight, bias, group)      // the bits of reduce_from(linear(x, weight, bias), group)
//   linear_reduce_scatter(x, weight, bias, group)   // the bits of reduce_scatter(linear(x, weight, bias), group)
//
// x [B,S,I/P], weight [O,I/P], bias [O] or null; results as parallel/collective_ops.h says: [B,S,O] whole, [n,O] dealt.
// A sum over ranks is one of each element, and the rows of a product do not depend on each other from
// kLeastChunkRows on (few rows take other kernels), so nothing but time changes. Fewer rows, f16 and, where they are
// dealt out, tokens that the ranks do not divide go in one piece: shapes alone decide that, alike on every rank.
// Bytes on the wire are the same, calls are one for each chunk, named "reduce_from 1/4". Backward passes are those of
// linear() and of the collective. Memory: reduce_from sums where the product lies; reduce_scatter has two chunks of
// the product at a time in place of all of it. Errors, null device, thread rule: those of collective_ops.h. After
// Jangda et al., "Breaking the computation and communication abstraction barrier in distributed machine learning
// workloads", 2022.
#pragma once

#include "athanor/nn/linear.h"
#include "athanor/parallel/sharding.h"

namespace athanor {

constexpr int64_t kLeastChunkRows = 128, kMostChunks = 4;

Var linear_reduce_from(const Var& x, Weight& weight, Weight* bias, Group& group);
Var linear_reduce_scatter(const Var& x, Weight& weight, Weight* bias, Group& group);

// What stands in place of a linear layer and this collective behind it; null where nothing does. `group` outlives it.
Linear::Product overlapped(Boundary output, Group& group);

}  // namespace athanor
