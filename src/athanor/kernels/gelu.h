// GELU in its tanh form (Hendrycks & Gimpel, 2016; "gelu_new" of Hugging Face):
//   y = x/2 * (1 + tanh(u)),  u = sqrt(2/pi) * (x + 0.044715 x^3)
//   dx = dy * (1/2 (1 + tanh u) + x/2 (1 - tanh^2 u) sqrt(2/pi) (1 + 0.134145 x^2))
//
// All tensors [..., F] T of one shape. dx may be dy.
#pragma once

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

struct GeluKernels {
  void (*forward)(Queue&, Tensor& y, const Tensor& x);
  void (*backward)(Queue&, Tensor& dx, const Tensor& dy, const Tensor& x);
};

}  // namespace athanor::kernels
