// Inverted dropout, its mask by address (kernels/dropout.h).
#include "athanor/base/philox.h"
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

// RandomStream(key).uniform(element, step).
__device__ inline float uniform(uint64_t key, uint64_t element, uint64_t step) {
  const uint64_t block = element / 4;
  const Philox4 words = philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                    static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)},
                                   key);
  return static_cast<float>(words[element % 4] >> 8) * 0x1p-24f;
}

template <typename T>
__global__ void apply(T* y, const T* x, int64_t n, float p, uint64_t key, uint64_t step,
                      uint64_t first_element) {
  const int64_t i = element();
  if (i >= n) return;
  const bool keep = uniform(key, first_element + static_cast<uint64_t>(i), step) >= p;
  y[i] = from_float<T>(keep ? to_float(x[i]) * (1 / (1 - p)) : 0.0f);
}

}  // namespace

Error dropout(Stream stream, Dtype type, void* y, const void* x, int64_t n, float p, uint64_t key,
              uint64_t step, uint64_t first_element) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, apply<T>, blocks_of(n), kThreads, out<T>(y), in<T>(x), n, p, key, step,
                  first_element);
  });
}

}  // namespace athanor::kernels::cuda
