// SwiGLU's gate (kernels/swiglu.h).
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

__device__ inline float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

struct Forward {
  __device__ float operator()(float gate, float up) const { return gate * sigmoid(gate) * up; }
};

template <int kCount, typename T>
__global__ void backward(T* dgate, T* dup, const T* dy, const T* gate, const T* up, int64_t n) {
  const int64_t first = element() * kCount;
  if (first >= n) return;
  const auto dys = pack_at<kCount>(dy + first), gates = pack_at<kCount>(gate + first),
             ups = pack_at<kCount>(up + first);
  Pack<T, kCount> dgates, dups;
  for (int i = 0; i < kCount; ++i) {
    const float d = to_float(dys.at[i]), g = to_float(gates.at[i]), s = sigmoid(g);
    dgates.at[i] = from_float<T>(d * to_float(ups.at[i]) * s * (1 + g * (1 - s)));
    dups.at[i] = from_float<T>(d * g * s);
  }
  set_pack<kCount>(dgate + first, dgates);
  set_pack<kCount>(dup + first, dups);
}

}  // namespace

Error swiglu_forward(Stream stream, Dtype type, void* y, const void* gate, const void* up, int64_t n) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return map(stream, out<T>(y), Forward(), n, in<T>(gate), in<T>(up));
  });
}

Error swiglu_backward(Stream stream, Dtype type, void* dgate, void* dup, const void* dy, const void* gate,
                      const void* up, int64_t n) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    constexpr int kCount = kPackOf<T>;
    if (has_packs(kCount, n, out<T>(dgate), out<T>(dup), in<T>(dy), in<T>(gate), in<T>(up)))
      return launch(stream, backward<kCount, T>, blocks_of(n / kCount), kThreads, out<T>(dgate), out<T>(dup),
                    in<T>(dy), in<T>(gate), in<T>(up), n);
    return launch(stream, backward<1, T>, blocks_of(n), kThreads, out<T>(dgate), out<T>(dup), in<T>(dy),
                  in<T>(gate), in<T>(up), n);
  });
}

}  // namespace athanor::kernels::cuda
