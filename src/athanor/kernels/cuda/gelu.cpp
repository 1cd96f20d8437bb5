#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

void forward(Queue& queue, Tensor& y, const Tensor& x, GeluForm form) {
  cpu_gelu.forward(queue, y, x, form);
  CudaQueue& device = cuda(queue);
  device.submitted("gelu.forward", x,
                   kernels_of(device).gelu_forward(device.stream(), x.dtype(), y.raw(), x.raw(), x.numel(),
                                                   form == GeluForm::exact));
}

void backward(Queue& queue, Tensor& dx, const Tensor& dy, const Tensor& x, GeluForm form) {
  cpu_gelu.backward(queue, dx, dy, x, form);
  CudaQueue& device = cuda(queue);
  device.submitted("gelu.backward", x,
                   kernels_of(device).gelu_backward(device.stream(), x.dtype(), dx.raw(), dy.raw(), x.raw(),
                                                    x.numel(), form == GeluForm::exact));
}

}  // namespace

const GeluKernels cuda_gelu{forward, backward};

}  // namespace athanor::kernels
