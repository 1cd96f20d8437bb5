// Root-mean-square normalization (Zhang & Sennrich, 2019) over the last dimension.
//
//   forward           y = x * rstd * w,   rstd = 1 / sqrt(mean(x^2) + eps)
//   backward          with g = dy * w and x^ = x * rstd:   dx = rstd * (g - x^ * mean(g * x^))
//   backward_weight   dw += sum over rows of dy * x^
//
// x, y, dx, dy [..., C] T;  w [C] T;  rstd [rows] f32;  dw [C] f32.
// Fused backward: with `base` [..., C] T (may be null) it gives base + T(dx), the bits of an addition afterwards; with
// dw (may be null) it also does what backward_weight does, with the same bits, and reads dy and x once for both. dw is
// summed over blocks of 32 rows, and the blocks are added in order.
#pragma once

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

struct RmsNormKernels {
  void (*forward)(Queue&, Tensor& y, Tensor& rstd, const Tensor& x, const Tensor& w, float eps);
  void (*backward)(Queue&, Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& rstd,
                   const Tensor* base, Tensor* dw);
  void (*backward_weight)(Queue&, Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& rstd);
};

}  // namespace athanor::kernels
