#include <cmath>

#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

template <typename T>
void forward(void* y, float* rstd, const void* x, const void* w, int64_t rows, int64_t width, float eps) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* x_row = in<T>(x) + row * width;
    double sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += double{to_float(x_row[c])} * to_float(x_row[c]);
    rstd[row] = static_cast<float>(1 / std::sqrt(sum / static_cast<double>(width) + eps));
    for (int64_t c = 0; c < width; ++c)
      out<T>(y)[row * width + c] = from_float<T>(to_float(x_row[c]) * rstd[row] * to_float(in<T>(w)[c]));
  }
}

template <typename T>
void backward(void* dx, const void* dy, const void* x, const void* w, const float* rstd, int64_t rows,
              int64_t width) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* x_row = in<T>(x) + row * width;
    const T* dy_row = in<T>(dy) + row * width;
    double sum = 0;
    for (int64_t c = 0; c < width; ++c) {
      const float g = to_float(dy_row[c]) * to_float(in<T>(w)[c]);
      sum += double{g} * (to_float(x_row[c]) * rstd[row]);
    }
    const auto mean = static_cast<float>(sum / static_cast<double>(width));
    for (int64_t c = 0; c < width; ++c) {
      const float g = to_float(dy_row[c]) * to_float(in<T>(w)[c]);
      const float normal = to_float(x_row[c]) * rstd[row];
      out<T>(dx)[row * width + c] = from_float<T>(rstd[row] * (g - normal * mean));
    }
  }
}

template <typename T>
void backward_weight(float* dw, const void* dy, const void* x, const float* rstd, int64_t rows,
                     int64_t width) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < width; ++c)
      dw[c] += to_float(in<T>(dy)[row * width + c]) * (to_float(in<T>(x)[row * width + c]) * rstd[row]);
}

}  // namespace

template <typename T>
RmsNormRows rms_norm() {
  return {forward<T>, backward<T>, backward_weight<T>};
}

template RmsNormRows rms_norm<float>();
template RmsNormRows rms_norm<Bf16>();
template RmsNormRows rms_norm<F16>();

}  // namespace athanor::kernels::ref
