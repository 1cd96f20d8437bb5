// GELU (Hendrycks & Gimpel, 2016), x times the normal distribution function of x, in two forms:
//   tanh   y = x/2 * (1 + tanh(u)),  u = sqrt(2/pi) * (x + 0.044715 x^3)     ("gelu_new" of Hugging Face: GPT-2, T5)
//          dx = dy * (1/2 (1 + tanh u) + x/2 (1 - tanh^2 u) sqrt(2/pi) (1 + 0.134145 x^2))
//   exact  y = x * Phi(x),  Phi(x) = (1 + erf(x / sqrt 2)) / 2               ("gelu" of Hugging Face: BERT, BART)
//          dx = dy * (Phi(x) + x e^(-x^2/2) / sqrt(2 pi))
//
//   kernels_of(x).gelu.forward(queue, y, x, GeluForm::exact);
//
// All tensors [..., F] T of one shape. dx may be dy.
#pragma once

#include <cstdint>

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

enum class GeluForm : uint8_t { tanh, exact };

struct GeluKernels {
  void (*forward)(Queue&, Tensor& y, const Tensor& x, GeluForm form);
  void (*backward)(Queue&, Tensor& dx, const Tensor& dy, const Tensor& x, GeluForm form);
};

}  // namespace athanor::kernels
