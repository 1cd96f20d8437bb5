// GELU in its tanh form (kernels/gelu.h).
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

constexpr float kSlope = 0.79788456080286536f;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

template <typename T>
__global__ void forward(T* y, const T* x, int64_t n) {
  const int64_t i = element();
  if (i >= n) return;
  const float v = to_float(x[i]);
  y[i] = from_float<T>(v / 2 * (1 + tanhf(kSlope * (v + kCubic * v * v * v))));
}

template <typename T>
__global__ void backward(T* dx, const T* dy, const T* x, int64_t n) {
  const int64_t i = element();
  if (i >= n) return;
  const float v = to_float(x[i]);
  const float t = tanhf(kSlope * (v + kCubic * v * v * v));
  const float slope = (1 + t) / 2 + v / 2 * (1 - t * t) * kSlope * (1 + 3 * kCubic * v * v);
  dx[i] = from_float<T>(to_float(dy[i]) * slope);
}

}  // namespace

Error gelu_forward(Stream stream, Dtype type, void* y, const void* x, int64_t n) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, forward<T>, blocks_of(n), kThreads, out<T>(y), in<T>(x), n);
  });
}

Error gelu_backward(Stream stream, Dtype type, void* dx, const void* dy, const void* x, int64_t n) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, backward<T>, blocks_of(n), kThreads, out<T>(dx), in<T>(dy), in<T>(x), n);
  });
}

}  // namespace athanor::kernels::cuda
