// kernels/token_rows.h on vectors.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace token_rows {

template <typename T>
void sum_rows(void* y, const void* x, const int32_t* places, const float* weights, int64_t count,
              int64_t width) {
  for_vectors(
      width, [&](int64_t i, auto part) __attribute__((always_inline)) {
        V sum = zero();
        for (int64_t k = 0; k < count; ++k)
          if (places[k] >= 0)
            sum = fma(set1(weights == nullptr ? 1.f : weights[k]),
                      load(static_cast<const T*>(x) + places[k] * width + i, part), sum);
        store(static_cast<T*>(y) + i, sum, part);
      });
}

template <typename T>
void scale_row(void* y, const void* x, float factor, int64_t width) {
  for_vectors(
      width, [&](int64_t i, auto part) __attribute__((always_inline)) {
        store(static_cast<T*>(y) + i, set1(factor) * load(static_cast<const T*>(x) + i, part), part);
      });
}

template <typename T>
float dot(const void* a, const void* b, int64_t width) {
  float sum[1];
  sum_vectors<1>(
      width, sum, [&](int64_t i, auto part, V* sums) __attribute__((always_inline)) {
        sums[0] =
            fma(load(static_cast<const T*>(a) + i, part), load(static_cast<const T*>(b) + i, part), sums[0]);
      });
  return sum[0];
}

template <typename T>
constexpr TokenRows rows = {sum_rows<T>, scale_row<T>, dot<T>};

}  // namespace token_rows
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
