// What the tests of attention, of whole sequences and of parts, compare.
#pragma once

#include "kernels/kernel_test.h"

namespace athanor::tests {

struct AttentionInputs {
  Values q, k, v, d_o;
};

struct AttentionResults {
  Values o, lse, dq, dk, dv, d_bias = {}, d_sinks = {};
};

struct AttentionShape {
  int64_t batch = 1, queries = 0, keys = 0, heads = 1, kv_heads = 1, head_dim = 1;
  int64_t value_dim = 0;  // 0: head_dim
  Shape q() const { return {batch, queries, heads, head_dim}; }
  Shape k() const { return {batch, keys, kv_heads, head_dim}; }
  int64_t values() const { return value_dim == 0 ? head_dim : value_dim; }
  Shape o() const { return {batch, queries, heads, values()}; }
  Shape v() const { return {batch, keys, kv_heads, values()}; }
  Shape lse() const { return {batch, heads, queries}; }
};
AttentionInputs attention_inputs(const AttentionShape& shape, Dtype dtype);

// Rows of a plain predicate. Blocks are left to the rows.
class PlainRule : public MaskRule {
 public:
  using Sees = std::function<bool(int64_t t, int64_t s)>;
  explicit PlainRule(Sees sees) : sees_(std::move(sees)) {}
  uint64_t row(int64_t query, int64_t first_key) const override {
    uint64_t bits = 0;
    for (int64_t j = 0; j < 64; ++j)
      if (sees_(query, first_key + j)) bits |= uint64_t{1} << j;
    return bits;
  }

 private:
  Sees sees_;
};

// Whether query t of a head sees key s.
using SeesPair = std::function<bool(int64_t batch, int64_t head, int64_t t, int64_t s)>;
// What changes scores and probabilities; empty: nothing does.
struct TextbookScores {
  double softcap = 0;
  Values bias = {}, sinks = {};                                           // [H, buckets], [H]
  std::function<size_t(int64_t head, int64_t t, int64_t s)> bucket = {};  // index into bias
  std::function<double(int64_t batch, int64_t head, int64_t t, int64_t s)> keep = {};
};
// Whole rows of probabilities, in double. A query without keys and sinks has o = 0 and lse = -infinity.
AttentionResults attention_textbook(const AttentionShape& shape, const AttentionInputs& in, double scale,
                                    const SeesPair& sees, const TextbookScores& terms = {});
void expect_lse(Values got, Values expected);

// o is stored in T before backward reads it, so gradients carry its rounding as well as their own; versions
// that keep probabilities in bf16 for a tile product add as much again.
inline double attention_gradient_tolerance(Dtype dtype) {
  return dtype == Dtype::f32 ? 5e-6 : 3 * tolerance(dtype);
}

}  // namespace athanor::tests
