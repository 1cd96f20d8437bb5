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

// o is stored in T before backward reads it, so gradients carry its rounding as well as their own; versions
// that keep probabilities in bf16 for a tile product add as much again.
inline double attention_gradient_tolerance(Dtype dtype) {
  return dtype == Dtype::f32 ? 5e-6 : 3 * tolerance(dtype);
}

}  // namespace athanor::tests
