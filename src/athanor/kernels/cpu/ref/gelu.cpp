#include <cmath>

#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

constexpr float kSlope = 0.79788456080286536f;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

template <typename T>
void forward(void* y, const void* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float v = to_float(in<T>(x)[i]);
    out<T>(y)[i] = from_float<T>(v / 2 * (1 + std::tanh(kSlope * (v + kCubic * v * v * v))));
  }
}

template <typename T>
void backward(void* dx, const void* dy, const void* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float v = to_float(in<T>(x)[i]);
    const float t = std::tanh(kSlope * (v + kCubic * v * v * v));
    const float slope = (1 + t) / 2 + v / 2 * (1 - t * t) * kSlope * (1 + 3 * kCubic * v * v);
    out<T>(dx)[i] = from_float<T>(to_float(in<T>(dy)[i]) * slope);
  }
}

float normal_share(float v) {  // Phi
  return 0.5f * std::erfc(v * -0.70710678118654752f);
}

template <typename T>
void exact_forward(void* y, const void* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float v = to_float(in<T>(x)[i]);
    out<T>(y)[i] = from_float<T>(v * normal_share(v));
  }
}

template <typename T>
void exact_backward(void* dx, const void* dy, const void* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float v = to_float(in<T>(x)[i]);
    const float bounded = v > 16 ? 16 : v < -16 ? -16 : v;  // infinity times a density of zero would be NaN
    const float density = 0.39894228040143268f * std::exp(-bounded * bounded / 2);
    out<T>(dx)[i] = from_float<T>(to_float(in<T>(dy)[i]) * (normal_share(v) + bounded * density));
  }
}

}  // namespace

template <typename T>
GeluRows gelu() {
  return {forward<T>, backward<T>, exact_forward<T>, exact_backward<T>};
}

template GeluRows gelu<float>();
template GeluRows gelu<Bf16>();
template GeluRows gelu<F16>();

}  // namespace athanor::kernels::ref
