// kernels/elementwise.h on vectors, and the rows of kernels/embedding.h, which are sums and copies too.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace elementwise {

template <typename T>
void add(void* y, const void* a, const void* b, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(static_cast<const T*>(a) + i);
        fetch_ahead(static_cast<const T*>(b) + i);
        const V sum = load(static_cast<const T*>(a) + i, part) + load(static_cast<const T*>(b) + i, part);
        store(static_cast<T*>(y) + i, sum, part);
      });
}

template <typename T>
void column_sum(float* out, const void* x, int64_t rows, int64_t width) {
  sum_columns<1>(
      rows, width, {out}, [&](int64_t row, int64_t i, auto part, V* sums) __attribute__((always_inline)) {
        sums[0] = sums[0] + load(static_cast<const T*>(x) + row * width + i, part);
      });
}

template <typename T>
void from_f32(void* y, const float* x, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part)
             __attribute__((always_inline)) { store(static_cast<T*>(y) + i, load(x + i, part), part); });
}

template <typename T>
void to_f32(float* y, const void* x, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        store(y + i, load(static_cast<const T*>(x) + i, part), part);
      });
}

void accumulate(float* y, const float* x, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part)
             __attribute__((always_inline)) { store(y + i, load(y + i, part) + load(x + i, part), part); });
}

void scale(float* x, float factor, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part)
             __attribute__((always_inline)) { store(x + i, load(x + i, part) * set1(factor), part); });
}

double sum_squares(const float* x, int64_t n) {
  // Four sums, so that additions do not wait for one another.
  constexpr int64_t kSums = 4;
  VD sums[kSums] = {zero_doubles(), zero_doubles(), zero_doubles(), zero_doubles()};
  int64_t i = 0;
  for (; i + kSums * kLanes <= n; i += kSums * kLanes)
    for (int64_t s = 0; s < kSums; ++s) sums[s] = add_squares(sums[s], load(x + i + s * kLanes));
  for_vectors(
      n - i, [&](int64_t j, auto part)
                 __attribute__((always_inline)) { sums[0] = add_squares(sums[0], load(x + i + j, part)); });
  return sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <typename T>
constexpr ElementwiseRows rows = {add<T>, column_sum<T>, from_f32<T>, to_f32<T>};
constexpr F32Rows f32_rows = {accumulate, scale, sum_squares};

}  // namespace elementwise

namespace embedding {

template <typename T>
void add_rows(void* y, const void* a, const void* b, int64_t n) {
  if (b != nullptr) return elementwise::add<T>(y, a, b, n);
  __builtin_memcpy(y, a, static_cast<size_t>(n) * sizeof(T));
}

template <typename T>
void backward(float* dtable_row, const void* dy_row, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        store(dtable_row + i, load(dtable_row + i, part) + load(static_cast<const T*>(dy_row) + i, part),
              part);
      });
}

template <typename T>
constexpr EmbeddingRows rows = {add_rows<T>, backward<T>};

}  // namespace embedding
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
