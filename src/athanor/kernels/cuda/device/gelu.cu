// GELU in its tanh form (kernels/gelu.h).
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

constexpr float kSlope = 0.79788456080286536f;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

struct Forward {
  __device__ float operator()(float v) const {
    return v / 2 * (1 + tanhf(kSlope * (v + kCubic * v * v * v)));
  }
};

struct Backward {
  __device__ float operator()(float dy, float v) const {
    const float t = tanhf(kSlope * (v + kCubic * v * v * v));
    return dy * ((1 + t) / 2 + v / 2 * (1 - t * t) * kSlope * (1 + 3 * kCubic * v * v));
  }
};

}  // namespace

Error gelu_forward(Stream stream, Dtype type, void* y, const void* x, int64_t n) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return map(stream, out<T>(y), Forward(), n, in<T>(x));
  });
}

Error gelu_backward(Stream stream, Dtype type, void* dx, const void* dy, const void* x, int64_t n) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return map(stream, out<T>(dx), Backward(), n, in<T>(dy), in<T>(x));
  });
}

}  // namespace athanor::kernels::cuda
