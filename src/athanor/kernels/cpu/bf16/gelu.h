// The tanh form of kernels/gelu.h in bf16, only as accurate as a bf16 result can show (sigmoid.h).
#pragma once

#include "athanor/kernels/cpu/bf16/sigmoid.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace gelu_bf16 {

inline constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;  // 2 sqrt(2 / pi)

// 2 sqrt(2 / pi) (x + 0.044715 x^3)
[[gnu::always_inline]] inline V twice_u(V x, V square) {
  return x * fma(set1(0.044715f * kTwoRootTwoOverPi), square, set1(kTwoRootTwoOverPi));
}

inline void forward(void* y, const void* x, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(static_cast<const Bf16*>(x) + i);
        const V xi = load(static_cast<const Bf16*>(x) + i, part);
        V complement;
        store(static_cast<Bf16*>(y) + i, xi * bf16::sigmoid(twice_u(xi, xi * xi), complement), part);
      });
}

inline void backward(void* dx, const void* dy, const void* x, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(static_cast<const Bf16*>(x) + i);
        fetch_ahead(static_cast<const Bf16*>(dy) + i);
        // Bounded to where the derivative is 0 or 1: its factors may not meet as 0 and infinity.
        const V b = min(set1(16.f), max(set1(-16.f), load(static_cast<const Bf16*>(x) + i, part)));
        const V square = b * b;
        const V slope = fma(set1(0.134145f * kTwoRootTwoOverPi), square, set1(kTwoRootTwoOverPi));
        V complement;
        const V s = bf16::sigmoid(twice_u(b, square), complement);
        const V derivative = fma(b * s, complement * slope, s);
        store(static_cast<Bf16*>(dx) + i, load(static_cast<const Bf16*>(dy) + i, part) * derivative, part);
      });
}

}  // namespace gelu_bf16
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
