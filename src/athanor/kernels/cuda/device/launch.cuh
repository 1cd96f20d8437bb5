// What the kernels of this folder share: launching, and reductions over the threads of a block.
//
//   template <typename T>
//   __global__ void twice(T* y, const T* x, int64_t n) {
//     const int64_t i = element();
//     if (i < n) y[i] = from_float<T>(2 * to_float(x[i]));
//   }
//   return launch(stream, twice<float>, blocks_of(n), kThreads, y, x, n);      // null, or what went wrong
//
// The files are compiled twice: by nvcc for devices, and by the C++ compiler for the emulated device of the tests, which
// includes its tests/cuda/emulated/threads.h first. So kernels use only the CUDA keywords that it defines. Kernels are
// plain: arithmetic in f32, no atomics, every sum in an order that depends on shapes alone.
#pragma once

#include <cmath>
#include <cstdint>

#include "athanor/kernels/cuda/kernel_calls.h"
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "athanor/kernels/cuda/device/stream.h"
#endif

namespace athanor::kernels::cuda {

constexpr int kThreads = 256;
constexpr int64_t kReduceRows = 32;  // rows per partial of a sum over rows, see the contracts

using Stream = CudaCalls::Stream*;
using Error = const char*;

__host__ __device__ constexpr int64_t num_blocks(int64_t n, int64_t block) {
  return (n + block - 1) / block;
}
inline int64_t blocks_of(int64_t n) {
  return num_blocks(n, kThreads);
}

#ifdef __CUDACC__
// As tensor/dtype.h's, by the device's own instructions: the bits of numbers are the same, those of a NaN are not.
template <typename T>
__device__ T from_float(float value) {
  return value;
}
template <>
__device__ inline Bf16 from_float<Bf16>(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}
template <>
__device__ inline F16 from_float<F16>(float value) {
  return {__half_as_ushort(__float2half_rn(value))};
}
#endif

// The index of this thread in the grid: the element it works on, if every thread has one element.
__device__ inline int64_t element() {
  return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

// call(T{}) for the element type T.
template <typename Call>
Error with_type(Dtype type, const Call& call) {
  switch (type) {
    case Dtype::f32:
      return call(float{});
    case Dtype::bf16:
      return call(Bf16{});
    case Dtype::f16:
      return call(F16{});
    default:
      return "kernels take f32, bf16 and f16";
  }
}
template <typename T>
T* out(void* x) {
  return static_cast<T*>(x);
}
template <typename T>
const T* in(const void* x) {
  return static_cast<const T*>(x);
}

// Neighbouring elements that a thread reads or writes at once.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T at[kCount];
};
template <typename T>
constexpr int kPackOf = 16 / sizeof(T);  // the widest access
template <int kCount, typename T>
__device__ Pack<T, kCount> pack_at(const T* x) {
  return *reinterpret_cast<const Pack<T, kCount>*>(x);
}
template <int kCount, typename T>
__device__ void set_pack(T* x, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(x) = pack;
}
// Whether rows of `width` elements of each of these arrays can be read in packs of `count`; null pointers can.
template <typename... T>
bool has_packs(int count, int64_t width, const T*... x) {
  return width % count == 0 &&
         ((reinterpret_cast<uintptr_t>(x) % (sizeof(T) * static_cast<unsigned>(count)) == 0) && ...);
}

// op(a, b) over the threads of a warp, or of a block, in a fixed tree; every thread gets the result. All threads of the
// block must call it (on a device: of the warp), and blockDim.x is kThreads.
constexpr int kLanes = 32, kWarps = kThreads / kLanes;
template <typename Number, typename Op>
__device__ Number warp_reduce(Number value, Op op) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}
template <typename Number, typename Op>
__device__ Number block_reduce(Number value, Op op) {
  __shared__ Number values[kWarps];
  value = warp_reduce(value, op);
  if (threadIdx.x % kLanes == 0) values[threadIdx.x / kLanes] = value;
  __syncthreads();
  Number result = values[0];
  for (int warp = 1; warp < kWarps; ++warp) result = op(result, values[warp]);
  __syncthreads();  // the next call writes there
  return result;
}
struct Sum {
  template <typename Number>
  __device__ Number operator()(Number a, Number b) const {
    return a + b;
  }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return a < b ? b : a; }
};

// y[i] = f(x[i]...) in f32. kCount elements a thread.
template <int kCount, typename Y, typename F, typename... X>
__global__ void map_elements(Y* y, F f, int64_t n, const X*... x) {
  const int64_t first = element() * kCount;
  if (first >= n) return;
  if (first + kCount > n) {
    for (int64_t i = first; i < n; ++i) y[i] = from_float<Y>(f(to_float(x[i])...));
    return;
  }
  const auto apply = [&](const Pack<X, kCount>&... packs) {
    Pack<Y, kCount> result;
    for (int i = 0; i < kCount; ++i) result.at[i] = from_float<Y>(f(to_float(packs.at[i])...));
    set_pack<kCount>(y + first, result);
  };
  apply(pack_at<kCount>(x + first)...);
}
template <typename Y, typename F, typename... X>
Error map(Stream stream, Y* y, F f, int64_t n, const X*... x) {
  constexpr int kCount = kPackOf<Y>;
  if (has_packs(kCount, 0, y, x...))
    return launch(stream, map_elements<kCount, Y, F, X...>, blocks_of(num_blocks(n, kCount)), kThreads, y, f,
                  n, x...);
  return launch(stream, map_elements<1, Y, F, X...>, blocks_of(n), kThreads, y, f, n, x...);
}

// Records a value that is out of range. If several threads do at once, any one of them wins.
__device__ inline void note(CudaFault* fault, int32_t code, int32_t value, int64_t at, int64_t end) {
  if (fault == nullptr || fault->code != CudaFault::none) return;
  fault->value = value;
  fault->at = at;
  fault->end = end;
  fault->code = code;
}

}  // namespace athanor::kernels::cuda
