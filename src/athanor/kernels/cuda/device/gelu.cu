// GELU in both forms (kernels/gelu.h).
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

__device__ float normal_share(float v) {
  return 0.5f * erfcf(v * -0.70710678118654752f);
}

struct ExactForward {
  __device__ float operator()(float v) const { return v * normal_share(v); }
};

struct ExactBackward {
  __device__ float operator()(float dy, float v) const {
    const float b = v > 16 ? 16 : v < -16 ? -16 : v;  // infinity times a density of zero would be NaN
    return dy * (normal_share(v) + b * 0.39894228040143268f * expf(-b * b / 2));
  }
};

}  // namespace

Error gelu_forward(Stream stream, Dtype type, void* y, const void* x, int64_t n, bool exact) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    if (exact) return map(stream, out<T>(y), ExactForward(), n, in<T>(x));
    return map(stream, out<T>(y), Forward(), n, in<T>(x));
  });
}

Error gelu_backward(Stream stream, Dtype type, void* dx, const void* dy, const void* x, int64_t n,
                    bool exact) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    if (exact) return map(stream, out<T>(dx), ExactBackward(), n, in<T>(dy), in<T>(x));
    return map(stream, out<T>(dx), Backward(), n, in<T>(dy), in<T>(x));
  });
}

}  // namespace athanor::kernels::cuda
