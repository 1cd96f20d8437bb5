#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

void forward(Queue& queue, Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& x, const Tensor& w,
             const Tensor* b, float eps) {
  cpu_layer_norm.forward(queue, y, mean, rstd, x, w, b, eps);
  CudaQueue& device = cuda(queue);
  device.submitted("layer_norm.forward", x,
                   kernels_of(device).norm_forward(device.stream(), x.dtype(), y.raw(), mean.data<float>(),
                                                   rstd.data<float>(), x.raw(), w.raw(), raw_or_null(b),
                                                   x.rows(), x.dim(-1), eps));
}

void backward_weight(Queue& queue, Tensor& dw, Tensor* db, const Tensor& dy, const Tensor& x,
                     const Tensor& mean, const Tensor& rstd) {
  cpu_layer_norm.backward_weight(queue, dw, db, dy, x, mean, rstd);
  CudaQueue& device = cuda(queue);
  const Tensor partials = empty_partials(x.arena(), x.rows(), x.dim(-1));
  device.submitted("layer_norm.backward_weight", x,
                   kernels_of(device).norm_backward_weight(
                       device.stream(), x.dtype(), dw.data<float>(), partials.data<float>(), dy.raw(),
                       x.raw(), mean.data<float>(), rstd.data<float>(), x.rows(), x.dim(-1)));
  if (db == nullptr) return;
  device.submitted("layer_norm.backward_weight", x,
                   kernels_of(device).column_sum(device.stream(), x.dtype(), db->data<float>(),
                                                 partials.data<float>(), dy.raw(), x.rows(), x.dim(-1)));
}

void backward(Queue& queue, Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& w,
              const Tensor& mean, const Tensor& rstd, const Tensor* base, Tensor* dw, Tensor* db) {
  cpu_layer_norm.backward(queue, dx, dy, x, w, mean, rstd, base, nullptr, nullptr);
  CudaQueue& device = cuda(queue);
  device.submitted("layer_norm.backward", x,
                   kernels_of(device).norm_backward(device.stream(), x.dtype(), dx.raw(), dy.raw(), x.raw(),
                                                    w.raw(), mean.data<float>(), rstd.data<float>(),
                                                    raw_or_null(base), x.rows(), x.dim(-1)));
  if (dw != nullptr) backward_weight(queue, *dw, db, dy, x, mean, rstd);
}

}  // namespace

const LayerNormKernels cuda_layer_norm{forward, backward, backward_weight};

}  // namespace athanor::kernels
