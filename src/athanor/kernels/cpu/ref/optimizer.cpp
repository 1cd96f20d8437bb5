#include <cmath>

#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

template <typename T>
void adamw(float* master, float* m, float* v, void* value, const float* grad, int64_t n,
           const AdamwRow& step) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * step.grad_scale;
    m[i] = step.beta1 * m[i] + (1 - step.beta1) * g;
    v[i] = step.beta2 * v[i] + (1 - step.beta2) * g * g;
    master[i] -= step.lr * step.weight_decay * master[i];
    master[i] -= step.lr * (m[i] / step.correction1) / (std::sqrt(v[i] / step.correction2) + step.eps);
    if (value != nullptr) out<T>(value)[i] = from_float<T>(master[i]);
  }
}

template <typename T>
void sgd(float* master, float* m, void* value, const float* grad, int64_t n, const SgdRow& step) {
  for (int64_t i = 0; i < n; ++i) {
    m[i] = step.momentum * m[i] + (grad[i] * step.grad_scale + step.weight_decay * master[i]);
    master[i] -= step.lr * m[i];
    if (value != nullptr) out<T>(value)[i] = from_float<T>(master[i]);
  }
}

}  // namespace

template <typename T>
OptimizerRows optimizer() {
  return {adamw<T>, sgd<T>};
}

template OptimizerRows optimizer<float>();
template OptimizerRows optimizer<Bf16>();
template OptimizerRows optimizer<F16>();

}  // namespace athanor::kernels::ref
