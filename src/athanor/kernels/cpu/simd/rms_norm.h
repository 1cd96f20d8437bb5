// kernels/rms_norm.h on vectors.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace rms_norm {

template <typename T>
void forward(void* y, float* rstd, const void* x, const void* w, int64_t rows, int64_t width, float eps) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* x_row = static_cast<const T*>(x) + row * width;
    T* y_row = static_cast<T*>(y) + row * width;
    float squares[1];
    sum_vectors(
        width, squares, [&](int64_t i, auto part, V* sums) __attribute__((always_inline)) {
          fetch_ahead(x_row + i);
          const V xi = load(x_row + i, part);
          sums[0] = fma(xi, xi, sums[0]);
        });
    const float r = 1.f / __builtin_sqrtf(squares[0] / static_cast<float>(width) + eps);
    rstd[row] = r;
    for_vectors(
        width, [&](int64_t i, auto part) __attribute__((always_inline)) {
          store(y_row + i, load(x_row + i, part) * set1(r) * load(static_cast<const T*>(w) + i, part), part);
        });
  }
}

template <typename T>
void backward(void* dx, const void* dy, const void* x, const void* w, const float* rstd, int64_t rows,
              int64_t width) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* x_row = static_cast<const T*>(x) + row * width;
    const T* dy_row = static_cast<const T*>(dy) + row * width;
    T* dx_row = static_cast<T*>(dx) + row * width;
    const V r = set1(rstd[row]);
    float product[1];
    sum_vectors(
        width, product, [&](int64_t i, auto part, V* sums) __attribute__((always_inline)) {
          fetch_ahead(dy_row + i);
          fetch_ahead(x_row + i);
          const V g = load(dy_row + i, part) * load(static_cast<const T*>(w) + i, part);
          sums[0] = fma(g, load(x_row + i, part) * r, sums[0]);
        });
    const V mean = set1(product[0] / static_cast<float>(width));
    for_vectors(
        width, [&](int64_t i, auto part) __attribute__((always_inline)) {
          const V g = load(dy_row + i, part) * load(static_cast<const T*>(w) + i, part);
          store(dx_row + i, r * fnma(load(x_row + i, part) * r, mean, g), part);
        });
  }
}

template <typename T>
void backward_weight(float* dw, const void* dy, const void* x, const float* rstd, int64_t rows,
                     int64_t width) {
  sum_columns<1>(
      rows, width, {dw}, [&](int64_t row, int64_t i, auto part, V* sums) __attribute__((always_inline)) {
        const V xi = load(static_cast<const T*>(x) + row * width + i, part) * set1(rstd[row]);
        sums[0] = fma(load(static_cast<const T*>(dy) + row * width + i, part), xi, sums[0]);
      });
}

template <typename T>
constexpr RmsNormRows rows = {forward<T>, backward<T>, backward_weight<T>};

}  // namespace rms_norm
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
