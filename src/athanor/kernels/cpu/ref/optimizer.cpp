#include <bit>
#include <cmath>

#include "athanor/base/block_checksum.h"
#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

// What element i of a block of n adds to its sum.
uint64_t weighted(float x, int64_t i, int64_t n) {
  const uint64_t word = std::bit_cast<uint32_t>(x), element = static_cast<uint64_t>(i);
  const uint64_t num_numbers = numbers_of_block(static_cast<uint64_t>(n) * sizeof(float));
  return fold_number(word << (32 * (element % 2))) * block_weight(element / 2, num_numbers);
}

template <typename T>
BlockSums adamw_to(AdamwState to, AdamwState from, void* value, const float* grad, int64_t n,
                   const AdamwRow& step, bool) {
  BlockSums sums{};
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * step.grad_scale;
    const float m = step.beta1 * from.m[i] + (1 - step.beta1) * g;
    const float v = step.beta2 * from.v[i] + (1 - step.beta2) * g * g;
    float master = from.master[i];
    master -= step.lr * step.weight_decay * master;
    master -= step.lr * (m / step.correction1) / (std::sqrt(v / step.correction2) + step.eps);
    to.m[i] = m;
    to.v[i] = v;
    to.master[i] = master;
    sums.m += weighted(m, i, n);
    sums.v += weighted(v, i, n);
    sums.master += weighted(master, i, n);
    if (value != nullptr) out<T>(value)[i] = from_float<T>(master);
  }
  return sums;
}

template <typename T>
BlockSums sgd_to(SgdState to, SgdState from, void* value, const float* grad, int64_t n, const SgdRow& step,
                 bool) {
  BlockSums sums{};
  for (int64_t i = 0; i < n; ++i) {
    const float m =
        step.momentum * from.m[i] + (grad[i] * step.grad_scale + step.weight_decay * from.master[i]);
    const float master = from.master[i] - step.lr * m;
    to.m[i] = m;
    to.master[i] = master;
    sums.m += weighted(m, i, n);
    sums.master += weighted(master, i, n);
    if (value != nullptr) out<T>(value)[i] = from_float<T>(master);
  }
  return sums;
}

template <typename T>
void adamw(AdamwState state, void* value, const float* grad, int64_t n, const AdamwRow& step) {
  adamw_to<T>(state, state, value, grad, n, step, false);
}

template <typename T>
void sgd(SgdState state, void* value, const float* grad, int64_t n, const SgdRow& step) {
  sgd_to<T>(state, state, value, grad, n, step, false);
}

void lamb_update(float* r, AdamwState state, const float* grad, int64_t n, const AdamwRow& step) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * step.grad_scale;
    const float m = step.beta1 * state.m[i] + (1 - step.beta1) * g;
    const float v = step.beta2 * state.v[i] + (1 - step.beta2) * g * g;
    r[i] = (m / step.correction1) / (std::sqrt(v / step.correction2) + step.eps) +
           step.weight_decay * state.master[i];
  }
}

}  // namespace

template <typename T>
OptimizerRows optimizer() {
  return {adamw<T>, sgd<T>, adamw_to<T>, sgd_to<T>, lamb_update};
}

template OptimizerRows optimizer<float>();
template OptimizerRows optimizer<Bf16>();
template OptimizerRows optimizer<F16>();

}  // namespace athanor::kernels::ref
