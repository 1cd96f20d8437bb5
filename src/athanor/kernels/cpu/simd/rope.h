// kernels/rope.h on vectors. Products and sums are rounded one by one (no fused multiply-add), so that rotating back
// undoes the rotation exactly as well as the plain formula does.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace rope {

template <typename T>
void apply(void* y, const void* x, const float* cos, const float* sin, int64_t heads, int64_t head_dim,
           float sign) {
  const int64_t half = head_dim / 2;
  for (int64_t head = 0; head < heads; ++head) {
    const T* in = static_cast<const T*>(x) + head * head_dim;
    T* out = static_cast<T*>(y) + head * head_dim;
    for_vectors(
        half, [&](int64_t i, auto part) __attribute__((always_inline)) {
          const V c = load(cos + i, part), s = load(sin + i, part) * set1(sign);
          const V first = load(in + i, part), last = load(in + half + i, part);
          store(out + i, first * c - last * s, part);
          store(out + half + i, last * c + first * s, part);
        });
  }
}

template <typename T>
constexpr RopeRows rows = {apply<T>};

}  // namespace rope
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
