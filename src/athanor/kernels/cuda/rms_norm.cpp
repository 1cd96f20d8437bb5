#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

void forward(Queue& queue, Tensor& y, Tensor& rstd, const Tensor& x, const Tensor& w, float eps) {
  cpu_rms_norm.forward(queue, y, rstd, x, w, eps);
  CudaQueue& device = cuda(queue);
  device.submitted(
      "rms_norm.forward", x,
      kernels_of(device).norm_forward(device.stream(), x.dtype(), y.raw(), nullptr, rstd.data<float>(),
                                      x.raw(), w.raw(), nullptr, x.rows(), x.dim(-1), eps));
}

void backward_weight(Queue& queue, Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& rstd) {
  cpu_rms_norm.backward_weight(queue, dw, dy, x, rstd);
  CudaQueue& device = cuda(queue);
  const Tensor partials = empty_partials(x.arena(), x.rows(), x.dim(-1));
  device.submitted("rms_norm.backward_weight", x,
                   kernels_of(device).norm_backward_weight(device.stream(), x.dtype(), dw.data<float>(),
                                                           partials.data<float>(), dy.raw(), x.raw(), nullptr,
                                                           rstd.data<float>(), x.rows(), x.dim(-1)));
}

void backward(Queue& queue, Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& w,
              const Tensor& rstd, const Tensor* base, Tensor* dw) {
  cpu_rms_norm.backward(queue, dx, dy, x, w, rstd, base, nullptr);
  CudaQueue& device = cuda(queue);
  device.submitted(
      "rms_norm.backward", x,
      kernels_of(device).norm_backward(device.stream(), x.dtype(), dx.raw(), dy.raw(), x.raw(), w.raw(),
                                       nullptr, rstd.data<float>(), raw_or_null(base), x.rows(), x.dim(-1)));
  if (dw != nullptr) backward_weight(queue, *dw, dy, x, rstd);
}

}  // namespace

const RmsNormKernels cuda_rms_norm{forward, backward, backward_weight};

}  // namespace athanor::kernels
