// Layer normalization (Ba et al., 2016) over the last dimension.
//
//   forward           y = x^ * w + b,   x^ = (x - mean) * rstd,   rstd = 1 / sqrt(var + eps)
//   backward          with g = dy * w:   dx = rstd * (g - mean(g) - x^ * mean(g * x^))
//   backward_weight   dw += sum over rows of dy * x^,   db += sum over rows of dy
//
// x, y, dx, dy [..., C] T;  w, b [C] T;  mean, rstd [rows] f32;  dw, db [C] f32. b and db may be null.
// Fused backward: with `base` [..., C] T (may be null) it gives base + T(dx), the bits of an addition afterwards; with
// dw (may be null) it also does what backward_weight does, with the same bits, and reads dy and x once for both. dw and
// db are summed over blocks of 32 rows, and the blocks are added in order.
#pragma once

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

struct LayerNormKernels {
  void (*forward)(Queue&, Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& x, const Tensor& w,
                  const Tensor* b, float eps);
  void (*backward)(Queue&, Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& mean,
                   const Tensor& rstd, const Tensor* base, Tensor* dw, Tensor* db);
  void (*backward_weight)(Queue&, Tensor& dw, Tensor* db, const Tensor& dy, const Tensor& x,
                          const Tensor& mean, const Tensor& rstd);
};

}  // namespace athanor::kernels
