// Rotary position embedding (Su et al., 2021) in the half-split convention of Hugging Face: with half = D / 2,
//   y[i]        = x[i] cos - x[i + half] sin
//   y[i + half] = x[i + half] cos + x[i] sin          0 <= i < half
//
//   kernels_of(x).rope.apply(queue, y, x, cos, sin, first_position, +1);
//
// x, y [B,T,H,D] T (y may be x);  cos, sin [P, D/2] f32, row p for position p. Row t of x has position
// first_position + t, which must lie below P. sign = +1 rotates; -1 rotates back, which is the gradient.
#pragma once

#include <cstdint>

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

struct RopeKernels {
  void (*apply)(Queue&, Tensor& y, const Tensor& x, const Tensor& cos, const Tensor& sin,
                int64_t first_position, int sign);
};

}  // namespace athanor::kernels
