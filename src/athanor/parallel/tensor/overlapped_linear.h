// Row-parallel linear layers whose reduction overlaps the product: the rows of x are divided into chunks, and while the
// partial sums of one chunk are reduced the next chunk is multiplied. After Jangda et al., "Breaking the computation
// and communication abstraction barrier in distributed machine learning workloads", 2022.
//
//   linear_reduce_from(x, weight, bias, group)      // the bits of reduce_from(linear(x, weight, bias), group)
//   linear_reduce_scatter(x, weight, bias, group)   // the bits of reduce_scatter(linear(x, weight, bias), group)
//
// x [B,S,I/P], weight [O,I/P], bias [O] or null. Results as in collective_ops.h: [B,S,O] replicated, [n,O] sharded.
// The bits are equal because the rows of a product do not depend on each other, from kLeastChunkRows rows on (fewer
// rows take other kernels). Not chunked: fewer rows, f16, and for reduce_scatter a number of tokens that P does not
// divide. Shapes alone decide, so all ranks agree. The bytes sent are the same, in one call per chunk, named
// "reduce_from 1/4". Backward passes are those of linear() and of the collective. Memory: reduce_from reduces in place;
// reduce_scatter holds two chunks of the product instead of all of it. Errors, null device, thread rule: those of
// collective_ops.h.
#pragma once

#include "athanor/nn/linear.h"
#include "athanor/parallel/tensor/sharding.h"

namespace athanor::parallel::tensor {

constexpr int64_t kLeastChunkRows = 128, kMostChunks = 4;

Var linear_reduce_from(const Var& x, Weight& weight, Weight* bias, Group& group);
Var linear_reduce_scatter(const Var& x, Weight& weight, Weight* bias, Group& group);

// The overlapped product for a linear layer that is followed by this collective; null if there is none for it. `group`
// outlives the result.
Linear::Product overlapped(Boundary output, Group& group);

}  // namespace athanor::parallel::tensor
