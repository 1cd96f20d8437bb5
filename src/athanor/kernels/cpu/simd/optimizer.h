// kernels/optimizer.h on vectors: each array is read and written once.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace optimizer {

template <typename T>
void adamw(float* master, float* m, float* v, void* value, const float* grad, int64_t n,
           const AdamwRow& step) {
  const V beta1 = set1(step.beta1), rest1 = set1(1.f - step.beta1);
  const V beta2 = set1(step.beta2), rest2 = set1(1.f - step.beta2);
  const V decay = set1(step.lr * step.weight_decay), rate = set1(step.lr / step.correction1);
  const V unbias2 = set1(1.f / step.correction2), eps = set1(step.eps), grad_scale = set1(step.grad_scale);
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(grad + i);
        fetch_ahead(m + i);
        fetch_ahead(v + i);
        fetch_ahead(master + i);
        const V g = load(grad + i, part) * grad_scale;
        const V mi = beta1 * load(m + i, part) + rest1 * g;
        const V vi = beta2 * load(v + i, part) + rest2 * (g * g);
        V p = load(master + i, part);
        p = p - decay * p;
        p = p - rate * mi / (sqrt(vi * unbias2) + eps);
        store(m + i, mi, part);
        store(v + i, vi, part);
        store(master + i, p, part);
        if (value != nullptr) store(static_cast<T*>(value) + i, p, part);
      });
}

template <typename T>
void sgd(float* master, float* m, void* value, const float* grad, int64_t n, const SgdRow& step) {
  const V lr = set1(step.lr), momentum = set1(step.momentum);
  const V decay = set1(step.weight_decay), grad_scale = set1(step.grad_scale);
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(grad + i);
        fetch_ahead(m + i);
        fetch_ahead(master + i);
        V p = load(master + i, part);
        const V g = load(grad + i, part) * grad_scale + decay * p;
        const V mi = momentum * load(m + i, part) + g;
        p = p - lr * mi;
        store(m + i, mi, part);
        store(master + i, p, part);
        if (value != nullptr) store(static_cast<T*>(value) + i, p, part);
      });
}

template <typename T>
constexpr OptimizerRows rows = {adamw<T>, sgd<T>};

}  // namespace optimizer
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
