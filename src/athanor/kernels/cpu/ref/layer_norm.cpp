#include <cmath>

#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

template <typename T>
void forward(void* y, float* mean, float* rstd, const void* x, const void* w, const void* b, int64_t rows,
             int64_t width, float eps) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* x_row = in<T>(x) + row * width;
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < width; ++c) sum += to_float(x_row[c]);
    const double center = sum / static_cast<double>(width);
    // A second pass over the row: the difference of mean(x^2) and mean(x)^2 would cancel.
    for (int64_t c = 0; c < width; ++c)
      squares += (to_float(x_row[c]) - center) * (to_float(x_row[c]) - center);
    mean[row] = static_cast<float>(center);
    rstd[row] = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(width) + eps));
    for (int64_t c = 0; c < width; ++c) {
      const float normal = (to_float(x_row[c]) - mean[row]) * rstd[row];
      const float bias = b == nullptr ? 0.0f : to_float(in<T>(b)[c]);
      out<T>(y)[row * width + c] = from_float<T>(normal * to_float(in<T>(w)[c]) + bias);
    }
  }
}

template <typename T>
void backward(void* dx, const void* dy, const void* x, const void* w, const float* mean, const float* rstd,
              int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* x_row = in<T>(x) + row * width;
    const T* dy_row = in<T>(dy) + row * width;
    double sum = 0, product = 0;
    for (int64_t c = 0; c < width; ++c) {
      const float g = to_float(dy_row[c]) * to_float(in<T>(w)[c]);
      sum += g;
      product += double{g} * ((to_float(x_row[c]) - mean[row]) * rstd[row]);
    }
    const auto mean_g = static_cast<float>(sum / static_cast<double>(width));
    const auto mean_product = static_cast<float>(product / static_cast<double>(width));
    for (int64_t c = 0; c < width; ++c) {
      const float g = to_float(dy_row[c]) * to_float(in<T>(w)[c]);
      const float normal = (to_float(x_row[c]) - mean[row]) * rstd[row];
      out<T>(dx)[row * width + c] = from_float<T>(rstd[row] * (g - mean_g - normal * mean_product));
    }
  }
}

template <typename T>
void backward_weight(float* dw, float* db, const void* dy, const void* x, const float* mean,
                     const float* rstd, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < width; ++c) {
      const float g = to_float(in<T>(dy)[row * width + c]);
      dw[c] += g * ((to_float(in<T>(x)[row * width + c]) - mean[row]) * rstd[row]);
      if (db != nullptr) db[c] += g;
    }
}

}  // namespace

template <typename T>
LayerNormRows layer_norm() {
  return {forward<T>, backward<T>, backward_weight<T>};
}

template LayerNormRows layer_norm<float>();
template LayerNormRows layer_norm<Bf16>();
template LayerNormRows layer_norm<F16>();

}  // namespace athanor::kernels::ref
