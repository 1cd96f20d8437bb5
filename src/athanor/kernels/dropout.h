// Inverted dropout: y[i] = keep(i) ? x[i] / (1 - p) : 0, where keep(i) is
//   RandomStream(key).uniform(first_element + i, step) >= p            (base/philox.h; law 2)
// The mask is never stored: the backward pass applies the same function to dy.
//
//   kernels_of(x).dropout.apply(queue, y, x, p, key, step, first_element);
//
// x, y [...] T of one shape (y may be x). first_element is the global index of x's first element: the same elements are
// dropped whichever rank or micro-batch holds them. 0 <= p < 1.
#pragma once

#include <cstdint>

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

struct DropoutKernels {
  void (*apply)(Queue&, Tensor& y, const Tensor& x, float p, uint64_t key, uint64_t step,
                uint64_t first_element);
};

}  // namespace athanor::kernels
