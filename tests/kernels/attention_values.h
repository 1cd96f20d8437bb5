// What the tests of attention, of whole sequences and of parts, compare.
#pragma once

#include "kernels/kernel_test.h"

namespace athanor::tests {

struct AttentionInputs {
  Values q, k, v, d_o;
};

struct AttentionResults {
  Values o, lse, dq, dk, dv;
};

struct AttentionShape {
  int64_t batch = 1, queries = 0, keys = 0, heads = 1, kv_heads = 1, head_dim = 1;
  Shape q() const { return {batch, queries, heads, head_dim}; }
  Shape k() const { return {batch, keys, kv_heads, head_dim}; }
  Shape lse() const { return {batch, heads, queries}; }
};
AttentionInputs attention_inputs(const AttentionShape& shape, Dtype dtype);

// Whether query t of a head sees key s.
using SeesPair = std::function<bool(int64_t batch, int64_t head, int64_t t, int64_t s)>;
// Whole rows of probabilities, in double. A query without keys has o = 0 and lse = -infinity.
AttentionResults attention_textbook(const AttentionShape& shape, const AttentionInputs& in, double scale,
                                    const SeesPair& sees);
void expect_lse(Values got, Values expected);

// o is stored in T before backward reads it, so gradients carry its rounding as well as their own; versions
// that keep probabilities in bf16 for a tile product add as much again.
inline double attention_gradient_tolerance(Dtype dtype) {
  return dtype == Dtype::f32 ? 5e-6 : 3 * tolerance(dtype);
}

}  // namespace athanor::tests
