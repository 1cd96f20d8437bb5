// One optimizer step over a parameter (kernels/optimizer.h).
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

template <typename T>
__global__ void adamw_elements(float* master, float* m, float* v, T* value, const float* grad, int64_t n,
                               AdamwRow step) {
  const int64_t i = element();
  if (i >= n) return;
  const float g = grad[i] * step.grad_scale;
  const float mean = step.beta1 * m[i] + (1 - step.beta1) * g;
  const float square = step.beta2 * v[i] + (1 - step.beta2) * g * g;
  float weight = master[i];
  weight -= step.lr * step.weight_decay * weight;
  weight -= step.lr * (mean / step.correction1) / (sqrtf(square / step.correction2) + step.eps);
  m[i] = mean;
  v[i] = square;
  master[i] = weight;
  if (value != nullptr) value[i] = from_float<T>(weight);
}

template <typename T>
__global__ void sgd_elements(float* master, float* m, T* value, const float* grad, int64_t n, SgdRow step) {
  const int64_t i = element();
  if (i >= n) return;
  const float mean = step.momentum * m[i] + (grad[i] * step.grad_scale + step.weight_decay * master[i]);
  const float weight = master[i] - step.lr * mean;
  m[i] = mean;
  master[i] = weight;
  if (value != nullptr) value[i] = from_float<T>(weight);
}

}  // namespace

Error adamw(Stream stream, Dtype type, float* master, float* m, float* v, void* value, const float* grad,
            int64_t n, const AdamwRow& step) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, adamw_elements<T>, blocks_of(n), kThreads, master, m, v, out<T>(value), grad, n,
                  step);
  });
}

Error sgd(Stream stream, Dtype type, float* master, float* m, void* value, const float* grad, int64_t n,
          const SgdRow& step) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, sgd_elements<T>, blocks_of(n), kThreads, master, m, out<T>(value), grad, n, step);
  });
}

}  // namespace athanor::kernels::cuda
