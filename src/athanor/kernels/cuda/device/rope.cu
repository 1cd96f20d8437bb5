// Rotary position embedding (kernels/rope.h).
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

// A thread for each pair of elements that turn together; x [rows, heads, 2 half], cos and sin [length, half].
template <typename T>
__global__ void rotate(T* y, const T* x, const float* cos, const float* sin, int64_t n, int64_t length,
                       int64_t heads, int64_t half, float sign) {
  const int64_t pair = element();
  if (pair >= n) return;
  const int64_t i = pair % half, head = pair / half, position = head / heads % length;
  const int64_t low = head * 2 * half + i, high = low + half;
  const float c = cos[position * half + i], s = sign * sin[position * half + i];
  const float a = to_float(x[low]), b = to_float(x[high]);
  y[low] = from_float<T>(a * c - b * s);
  y[high] = from_float<T>(b * c + a * s);
}

}  // namespace

Error rope(Stream stream, Dtype type, void* y, const void* x, const float* cos, const float* sin,
           int64_t positions, int64_t length, int64_t heads, int64_t head_dim, float sign) {
  const int64_t pairs = positions * heads * (head_dim / 2);
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, rotate<T>, blocks_of(pairs), kThreads, out<T>(y), in<T>(x), cos, sin, pairs, length,
                  heads, head_dim / 2, sign);
  });
}

}  // namespace athanor::kernels::cuda
