// kernels/optimizer.h on vectors: each array is read and written once.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"
#include "athanor/kernels/cpu/simd/word_sums.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace optimizer {

// How results are written.
struct Plainly {
  template <typename Part>
  static void write(float* p, V x, Part part) {
    store(p, x, part);
  }
};
struct PastCaches {
  static void write(float* p, V x, Full) { stream(p, x); }
  static void write(float* p, V x, Tail tail) { store(p, x, tail); }
};

// Sums over what is written, or none of them.
struct NoSums {
  template <typename Part>
  void add(V, V, V, Part) {}
  BlockSums total() const { return {}; }
};
struct Sums {
  template <typename Part>
  [[gnu::always_inline]] void add(V x, V y, V z, Part part) {
    master = add_words(master, x, part);
    m = add_words(m, y, part);
    v = add_words(v, z, part);
  }
  BlockSums total() const { return {total_of(master), total_of(m), total_of(v)}; }

  BlockSum master = zero_block_sum(), m = zero_block_sum(), v = zero_block_sum();
};

template <typename T, typename How, typename Taken>
[[gnu::always_inline]] inline BlockSums adamw_step(AdamwState to, AdamwState from, void* value,
                                                   const float* grad, int64_t n, const AdamwRow& step) {
  const V beta1 = set1(step.beta1), rest1 = set1(1.f - step.beta1);
  const V beta2 = set1(step.beta2), rest2 = set1(1.f - step.beta2);
  const V decay = set1(step.lr * step.weight_decay), rate = set1(step.lr / step.correction1);
  const V unbias2 = set1(1.f / step.correction2), eps = set1(step.eps), grad_scale = set1(step.grad_scale);
  Taken sums;
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(grad + i);
        fetch_ahead(from.m + i);
        fetch_ahead(from.v + i);
        fetch_ahead(from.master + i);
        const V g = load(grad + i, part) * grad_scale;
        const V mi = beta1 * load(from.m + i, part) + rest1 * g;
        const V vi = beta2 * load(from.v + i, part) + rest2 * (g * g);
        V p = load(from.master + i, part);
        p = p - decay * p;
        p = p - rate * mi / (sqrt(vi * unbias2) + eps);
        How::write(to.m + i, mi, part);
        How::write(to.v + i, vi, part);
        How::write(to.master + i, p, part);
        sums.add(p, mi, vi, part);
        if (value != nullptr) store(static_cast<T*>(value) + i, p, part);
      });
  return sums.total();
}

template <typename T, typename How, typename Taken>
[[gnu::always_inline]] inline BlockSums sgd_step(SgdState to, SgdState from, void* value, const float* grad,
                                                 int64_t n, const SgdRow& step) {
  const V lr = set1(step.lr), momentum = set1(step.momentum);
  const V decay = set1(step.weight_decay), grad_scale = set1(step.grad_scale);
  Taken sums;
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(grad + i);
        fetch_ahead(from.m + i);
        fetch_ahead(from.master + i);
        V p = load(from.master + i, part);
        const V g = load(grad + i, part) * grad_scale + decay * p;
        const V mi = momentum * load(from.m + i, part) + g;
        p = p - lr * mi;
        How::write(to.m + i, mi, part);
        How::write(to.master + i, p, part);
        sums.add(p, mi, zero(), part);
        if (value != nullptr) store(static_cast<T*>(value) + i, p, part);
      });
  return sums.total();
}

inline bool is_aligned(const float* p) {
  return reinterpret_cast<uintptr_t>(p) % (kLanes * sizeof(float)) == 0;
}

template <typename T>
void adamw(AdamwState state, void* value, const float* grad, int64_t n, const AdamwRow& step) {
  adamw_step<T, Plainly, NoSums>(state, state, value, grad, n, step);
}

// Each way has a function of its own: inlined into one, they would spill registers in the loop.
template <typename T, typename How>
[[gnu::noinline]] BlockSums adamw_summed(AdamwState to, AdamwState from, void* value, const float* grad,
                                         int64_t n, const AdamwRow& step) {
  return adamw_step<T, How, Sums>(to, from, value, grad, n, step);
}

template <typename T>
BlockSums adamw_to(AdamwState to, AdamwState from, void* value, const float* grad, int64_t n,
                   const AdamwRow& step, bool stream) {
  if (!stream || !is_aligned(to.master) || !is_aligned(to.m) || !is_aligned(to.v))
    return adamw_summed<T, Plainly>(to, from, value, grad, n, step);
  const BlockSums sums = adamw_summed<T, PastCaches>(to, from, value, grad, n, step);
  _mm_sfence();  // streamed results come before what other threads are told of them
  return sums;
}

template <typename T>
void sgd(SgdState state, void* value, const float* grad, int64_t n, const SgdRow& step) {
  sgd_step<T, Plainly, NoSums>(state, state, value, grad, n, step);
}

template <typename T, typename How>
[[gnu::noinline]] BlockSums sgd_summed(SgdState to, SgdState from, void* value, const float* grad, int64_t n,
                                       const SgdRow& step) {
  return sgd_step<T, How, Sums>(to, from, value, grad, n, step);
}

template <typename T>
BlockSums sgd_to(SgdState to, SgdState from, void* value, const float* grad, int64_t n, const SgdRow& step,
                 bool stream) {
  if (!stream || !is_aligned(to.master) || !is_aligned(to.m))
    return sgd_summed<T, Plainly>(to, from, value, grad, n, step);
  const BlockSums sums = sgd_summed<T, PastCaches>(to, from, value, grad, n, step);
  _mm_sfence();
  return sums;
}

inline void lamb_update(float* r, AdamwState state, const float* grad, int64_t n, const AdamwRow& step) {
  const V beta1 = set1(step.beta1), rest1 = set1(1.f - step.beta1);
  const V beta2 = set1(step.beta2), rest2 = set1(1.f - step.beta2);
  const V decay = set1(step.weight_decay), unbias1 = set1(1.f / step.correction1);
  const V unbias2 = set1(1.f / step.correction2), eps = set1(step.eps), grad_scale = set1(step.grad_scale);
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        const V g = load(grad + i, part) * grad_scale;
        const V mi = beta1 * load(state.m + i, part) + rest1 * g;
        const V vi = beta2 * load(state.v + i, part) + rest2 * (g * g);
        const V adam = unbias1 * mi / (sqrt(vi * unbias2) + eps);
        store(r + i, adam + decay * load(state.master + i, part), part);
      });
}

template <typename T>
constexpr OptimizerRows rows = {adamw<T>, sgd<T>, adamw_to<T>, sgd_to<T>, lamb_update};

}  // namespace optimizer
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
