// SwiGLU's gate (Shazeer, 2020): y = silu(gate) * up,  silu(g) = g * sigmoid(g).
//
//   backward   dgate = dy * up * sigmoid(g) * (1 + g * (1 - sigmoid(g))),   dup = dy * silu(g)
//
// All tensors [..., F] T of one shape. dup may be dy.
#pragma once

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

struct SwigluKernels {
  void (*forward)(Queue&, Tensor& y, const Tensor& gate, const Tensor& up);
  void (*backward)(Queue&, Tensor& dgate, Tensor& dup, const Tensor& dy, const Tensor& gate,
                   const Tensor& up);
};

}  // namespace athanor::kernels
