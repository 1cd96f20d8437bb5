// kernels/layer_norm.h on vectors.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace layer_norm {

template <typename T>
void forward(void* y, float* mean, float* rstd, const void* x, const void* w, const void* b, int64_t rows,
             int64_t width, float eps) {
  const T* weight = static_cast<const T*>(w);
  const T* bias = static_cast<const T*>(b);
  for (int64_t row = 0; row < rows; ++row) {
    const T* x_row = static_cast<const T*>(x) + row * width;
    T* y_row = static_cast<T*>(y) + row * width;
    float total[1], squares[1];
    sum_vectors(
        width, total, [&](int64_t i, auto part, V* sums) __attribute__((always_inline)) {
          fetch_ahead(x_row + i);
          sums[0] = sums[0] + load(x_row + i, part);
        });
    const float m = total[0] / static_cast<float>(width);
    sum_vectors(
        width, squares, [&](int64_t i, auto part, V* sums) __attribute__((always_inline)) {
          const V centred = keep(load(x_row + i, part) - set1(m), part, zero());
          sums[0] = fma(centred, centred, sums[0]);
        });
    const float r = 1.f / __builtin_sqrtf(squares[0] / static_cast<float>(width) + eps);
    mean[row] = m;
    rstd[row] = r;
    for_vectors(
        width, [&](int64_t i, auto part) __attribute__((always_inline)) {
          const V scaled = (load(x_row + i, part) - set1(m)) * set1(r) * load(weight + i, part);
          store(y_row + i, bias != nullptr ? scaled + load(bias + i, part) : scaled, part);
        });
  }
}

template <typename T>
void backward(void* dx, const void* dy, const void* x, const void* w, const float* mean, const float* rstd,
              int64_t rows, int64_t width) {
  const T* weight = static_cast<const T*>(w);
  for (int64_t row = 0; row < rows; ++row) {
    const T* x_row = static_cast<const T*>(x) + row * width;
    const T* dy_row = static_cast<const T*>(dy) + row * width;
    T* dx_row = static_cast<T*>(dx) + row * width;
    const V m = set1(mean[row]), r = set1(rstd[row]);
    float totals[2];
    sum_vectors(
        width, totals, [&](int64_t i, auto part, V* sums) __attribute__((always_inline)) {
          fetch_ahead(dy_row + i);
          fetch_ahead(x_row + i);
          const V g = load(dy_row + i, part) * load(weight + i, part);
          sums[0] = sums[0] + g;
          sums[1] = fma(g, (load(x_row + i, part) - m) * r, sums[1]);
        });
    const V mean_g = set1(totals[0] / static_cast<float>(width));
    const V mean_gx = set1(totals[1] / static_cast<float>(width));
    for_vectors(
        width, [&](int64_t i, auto part) __attribute__((always_inline)) {
          const V g = load(dy_row + i, part) * load(weight + i, part);
          store(dx_row + i, r * fnma((load(x_row + i, part) - m) * r, mean_gx, g - mean_g), part);
        });
  }
}

template <typename T>
void backward_weight(float* dw, float* db, const void* dy, const void* x, const float* mean,
                     const float* rstd, int64_t rows, int64_t width) {
  sum_columns<2>(
      rows, width, {dw, db}, [&](int64_t row, int64_t i, auto part, V* sums) __attribute__((always_inline)) {
        const V dyi = load(static_cast<const T*>(dy) + row * width + i, part);
        const V centred = load(static_cast<const T*>(x) + row * width + i, part) - set1(mean[row]);
        sums[0] = fma(dyi, centred * set1(rstd[row]), sums[0]);
        sums[1] = sums[1] + dyi;
      });
}

template <typename T>
constexpr LayerNormRows rows = {forward<T>, backward<T>, backward_weight<T>};

}  // namespace layer_norm
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
