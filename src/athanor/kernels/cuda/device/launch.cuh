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

// op(a, b) over the threads of a block, in a fixed tree; every thread gets the result. All threads of the block must
// call it, and blockDim.x is kThreads.
template <typename Number, typename Op>
__device__ Number block_reduce(Number value, Op op) {
  __shared__ Number values[kThreads];
  values[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] = op(values[threadIdx.x], values[threadIdx.x + half]);
    __syncthreads();
  }
  const Number result = values[0];
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

// out [width] += the rows of partials [rows, width], in order (row_sums.cu).
Error add_partials(Stream stream, float* out, const float* partials, int64_t rows, int64_t width);

// Records a value that is out of range. If several threads do at once, any one of them wins.
__device__ inline void note(CudaFault* fault, int32_t code, int32_t value, int64_t at, int64_t end) {
  if (fault == nullptr || fault->code != CudaFault::none) return;
  fault->value = value;
  fault->at = at;
  fault->end = end;
  fault->code = code;
}

}  // namespace athanor::kernels::cuda
