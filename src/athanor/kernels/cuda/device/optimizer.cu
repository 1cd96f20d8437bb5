// One optimizer step over a parameter (kernels/optimizer.h).
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

// One element, in place.
struct Adamw {
  AdamwRow step;
  __device__ void operator()(float* weight, float* mean, float* square, float grad) const {
    const float g = grad * step.grad_scale;
    *mean = step.beta1 * *mean + (1 - step.beta1) * g;
    *square = step.beta2 * *square + (1 - step.beta2) * g * g;
    *weight -= step.lr * step.weight_decay * *weight;
    *weight -= step.lr * (*mean / step.correction1) / (sqrtf(*square / step.correction2) + step.eps);
  }
};
struct Sgd {
  SgdRow step;
  __device__ void operator()(float* weight, float* mean, float* /*none*/, float grad) const {
    *mean = step.momentum * *mean + (grad * step.grad_scale + step.weight_decay * *weight);
    *weight -= step.lr * *mean;
  }
};

// v may be null: the rule has no second moment.
template <int kCount, typename T, typename Rule>
__global__ void update(float* master, float* m, float* v, T* value, const float* grad, int64_t n, Rule rule) {
  const int64_t first = element() * kCount;
  if (first >= n) return;
  auto weights = pack_at<kCount>(master + first), means = pack_at<kCount>(m + first);
  const auto grads = pack_at<kCount>(grad + first);
  Pack<float, kCount> squares{};
  if (v != nullptr) squares = pack_at<kCount>(v + first);
  Pack<T, kCount> values;
  for (int i = 0; i < kCount; ++i) {
    rule(&weights.at[i], &means.at[i], &squares.at[i], grads.at[i]);
    values.at[i] = from_float<T>(weights.at[i]);
  }
  set_pack<kCount>(master + first, weights);
  set_pack<kCount>(m + first, means);
  if (v != nullptr) set_pack<kCount>(v + first, squares);
  if (value != nullptr) set_pack<kCount>(value + first, values);
}

template <typename Rule>
Error update_all(Stream stream, Dtype type, float* master, float* m, float* v, void* value, const float* grad,
                 int64_t n, Rule rule) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    constexpr int kCount = kPackOf<float>;
    if (has_packs(kCount, n, master, m, v, out<T>(value), grad))
      return launch(stream, update<kCount, T, Rule>, blocks_of(n / kCount), kThreads, master, m, v,
                    out<T>(value), grad, n, rule);
    return launch(stream, update<1, T, Rule>, blocks_of(n), kThreads, master, m, v, out<T>(value), grad, n,
                  rule);
  });
}

}  // namespace

Error adamw(Stream stream, Dtype type, float* master, float* m, float* v, void* value, const float* grad,
            int64_t n, const AdamwRow& step) {
  return update_all(stream, type, master, m, v, value, grad, n, Adamw{step});
}

Error sgd(Stream stream, Dtype type, float* master, float* m, void* value, const float* grad, int64_t n,
          const SgdRow& step) {
  return update_all(stream, type, master, m, nullptr, value, grad, n, Sgd{step});
}

}  // namespace athanor::kernels::cuda
