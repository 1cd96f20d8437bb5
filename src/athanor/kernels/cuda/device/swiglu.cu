// SwiGLU's gate (kernels/swiglu.h).
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

__device__ inline float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

template <typename T>
__global__ void forward(T* y, const T* gate, const T* up, int64_t n) {
  const int64_t i = element();
  if (i >= n) return;
  const float g = to_float(gate[i]);
  y[i] = from_float<T>(g * sigmoid(g) * to_float(up[i]));
}

template <typename T>
__global__ void backward(T* dgate, T* dup, const T* dy, const T* gate, const T* up, int64_t n) {
  const int64_t i = element();
  if (i >= n) return;
  const float d = to_float(dy[i]), g = to_float(gate[i]), s = sigmoid(g);
  dgate[i] = from_float<T>(d * to_float(up[i]) * s * (1 + g * (1 - s)));
  dup[i] = from_float<T>(d * g * s);
}

}  // namespace

Error swiglu_forward(Stream stream, Dtype type, void* y, const void* gate, const void* up, int64_t n) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, forward<T>, blocks_of(n), kThreads, out<T>(y), in<T>(gate), in<T>(up), n);
  });
}

Error swiglu_backward(Stream stream, Dtype type, void* dgate, void* dup, const void* dy, const void* gate,
                      const void* up, int64_t n) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, backward<T>, blocks_of(n), kThreads, out<T>(dgate), out<T>(dup), in<T>(dy),
                  in<T>(gate), in<T>(up), n);
  });
}

}  // namespace athanor::kernels::cuda
