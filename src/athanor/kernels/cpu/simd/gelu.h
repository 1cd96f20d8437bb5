// kernels/gelu.h on vectors. In the tanh form (1 + tanh u) / 2 = sigmoid(2 u), which keeps its precision where tanh u is near
// -1.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"
#include "athanor/kernels/cpu/simd/vec_math.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace gelu {

inline constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;  // 2 sqrt(2 / pi)

// 2 u = x (c + 0.044715 c x^2). Where the square overflows, the sign of infinity is right.
inline V twice_u(V x, V square) {
  return x * fma(set1(0.044715f * kTwoRootTwoOverPi), square, set1(kTwoRootTwoOverPi));
}

template <typename T>
void forward(void* y, const void* x, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(static_cast<const T*>(x) + i);
        const V xi = load(static_cast<const T*>(x) + i, part);
        V complement;
        store(static_cast<T*>(y) + i, xi * sigmoid(twice_u(xi, xi * xi), complement), part);
      });
}

template <typename T>
void backward(void* dx, const void* dy, const void* x, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(static_cast<const T*>(x) + i);
        fetch_ahead(static_cast<const T*>(dy) + i);
        // Bounded to where the derivative is 0 or 1 in f32: its factors may not meet as 0 and infinity.
        const V b = min(set1(16.f), max(set1(-16.f), load(static_cast<const T*>(x) + i, part)));
        const V square = b * b, two_u = twice_u(b, square);
        const V slope = set1(kTwoRootTwoOverPi) * fma(set1(0.134145f), square, set1(1.f));  // of two_u
        V complement;
        const V s = sigmoid(two_u, complement);
        const V derivative = fma(b * s, complement * slope, s);
        store(static_cast<T*>(dx) + i, load(static_cast<const T*>(dy) + i, part) * derivative, part);
      });
}

// Phi(x), with power = e^(-x^2/2): half of erfc(a) where x is negative and its complement elsewhere, a = |x| / sqrt 2.
// erfc(a) = power * P(t), t = 1 / (1 + 0.38 a); P is a minimax fit (Lawson's algorithm), within 2e-8 of it.
inline V normal_share(V x, V power) {
  const V t = set1(1.f) / fma(set1(0.38f * 0.70710678118654752f), zero() - minus_abs(x), set1(1.f));
  constexpr float kRest[] = {-0.2626970953310762f, 0.3647580575492481f, -0.16253359022299219f,
                             0.23080614722354992f, 0.1382980515712064f, 0.20400241211307232f,
                             0.2139049630144716f,  0.21441187155690952f};
  V p = set1(0.05904920256083023f);
  for (const float next : kRest) p = fma(p, t, set1(next));
  const V tail = set1(0.5f) * power * (p * t);
  return select(less(x, zero()), tail, set1(1.f) - tail);
}

template <typename T>
void exact_forward(void* y, const void* x, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(static_cast<const T*>(x) + i);
        const V xi = load(static_cast<const T*>(x) + i, part);
        const V power = exp(set1(-0.5f) * (xi * xi));
        store(static_cast<T*>(y) + i, xi * normal_share(xi, power), part);
      });
}

template <typename T>
void exact_backward(void* dx, const void* dy, const void* x, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(static_cast<const T*>(x) + i);
        fetch_ahead(static_cast<const T*>(dy) + i);
        // Bounded as above.
        const V b = min(set1(16.f), max(set1(-16.f), load(static_cast<const T*>(x) + i, part)));
        const V power = exp(set1(-0.5f) * (b * b));
        const V derivative = fma(b * set1(0.39894228040143268f), power, normal_share(b, power));
        store(static_cast<T*>(dx) + i, load(static_cast<const T*>(dy) + i, part) * derivative, part);
      });
}

template <typename T>
constexpr GeluRows rows = {forward<T>, backward<T>, exact_forward<T>, exact_backward<T>};

}  // namespace gelu
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
