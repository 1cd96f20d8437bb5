#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

template <typename T>
void add(void* y, const void* a, const void* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out<T>(y)[i] = from_float<T>(to_float(in<T>(a)[i]) + to_float(in<T>(b)[i]));
}

template <typename T>
void column_sum(float* sum, const void* x, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < width; ++c) sum[c] += to_float(in<T>(x)[row * width + c]);
}

template <typename T>
void from_f32(void* y, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out<T>(y)[i] = from_float<T>(x[i]);
}

template <typename T>
void to_f32(float* y, const void* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = to_float(in<T>(x)[i]);
}

void accumulate(float* y, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

void scale(float* x, float factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

double sum_squares(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{x[i]} * x[i];
  return sum;
}

}  // namespace

template <typename T>
ElementwiseRows elementwise() {
  return {add<T>, column_sum<T>, from_f32<T>, to_f32<T>};
}

F32Rows f32() {
  return {accumulate, scale, sum_squares};
}

template ElementwiseRows elementwise<float>();
template ElementwiseRows elementwise<Bf16>();
template ElementwiseRows elementwise<F16>();

}  // namespace athanor::kernels::ref
