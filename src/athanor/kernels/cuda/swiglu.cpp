#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

void forward(Queue& queue, Tensor& y, const Tensor& gate, const Tensor& up) {
  cpu_swiglu.forward(queue, y, gate, up);
  CudaQueue& device = cuda(queue);
  device.submitted("swiglu.forward", gate,
                   kernels_of(device).swiglu_forward(device.stream(), gate.dtype(), y.raw(), gate.raw(),
                                                     up.raw(), gate.numel()));
}

void backward(Queue& queue, Tensor& dgate, Tensor& dup, const Tensor& dy, const Tensor& gate,
              const Tensor& up) {
  cpu_swiglu.backward(queue, dgate, dup, dy, gate, up);
  CudaQueue& device = cuda(queue);
  device.submitted("swiglu.backward", gate,
                   kernels_of(device).swiglu_backward(device.stream(), gate.dtype(), dgate.raw(), dup.raw(),
                                                      dy.raw(), gate.raw(), up.raw(), gate.numel()));
}

}  // namespace

const SwigluKernels cuda_swiglu{forward, backward};

}  // namespace athanor::kernels
