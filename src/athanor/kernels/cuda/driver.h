// What the drivers of the CUDA column share (kernels/cuda/x.cpp, one per operation).
//
// A driver first calls the CPU's of the same name: on a queue that is not the CPU's it checks the contract and
// accounts for the call, and runs nothing. Then it submits the device's kernel:
//
//   cpu_gelu.forward(queue, y, x);
//   CudaQueue& device = cuda(queue);
//   device.submitted("gelu.forward", x, kernels_of(device).gelu_forward(device.stream(), x.dtype(), y.raw(), ...));
//
// What the CPU's driver takes as workspace is given back by then, so the device's is no more than the larger of both.
#pragma once

#include "athanor/kernels/cpu/cpu.h"
#include "athanor/kernels/cuda/queue.h"

namespace athanor {

inline const CudaKernelCalls& kernels_of(const CudaQueue& queue) {
  return *queue.calls().kernels;
}
inline const void* raw_or_null(const Tensor* x) {
  return x == nullptr ? nullptr : x->raw();
}
inline void* raw_or_null(Tensor* x) {
  return x == nullptr ? nullptr : x->raw();
}

}  // namespace athanor
