// Dispatch and combine of experts (kernels/token_rows.h). An index out of range is noted and skipped.
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

template <typename T>
__global__ void gather(T* y, const T* x, const int32_t* tokens, int64_t n, int64_t width, int64_t all_tokens,
                       CudaFault* fault) {
  const int64_t i = element();
  if (i >= n) return;
  const int32_t token = tokens[i / width];
  const bool is_token = token >= 0 && token < all_tokens;
  if (!is_token) note(fault, CudaFault::token, token, i / width, all_tokens);
  y[i] = is_token ? x[token * width + i % width] : from_float<T>(0.0f);
}

// The row of a choice, -1 where it was dropped.
__device__ inline int64_t row_of(const int32_t* places, int64_t choice, int64_t all_rows, CudaFault* fault) {
  const int32_t row = places[choice];
  if (row < all_rows) return row < 0 ? -1 : row;
  note(fault, CudaFault::place, row, choice, all_rows);
  return -1;
}

template <typename T>
__global__ void sum_chosen(T* y, const T* x, const float* weights, const int32_t* places, int64_t n,
                           int64_t chosen, int64_t width, int64_t all_rows, CudaFault* fault) {
  const int64_t i = element();
  if (i >= n) return;
  const int64_t first = i / width * chosen;
  float sum = 0;
  for (int64_t k = 0; k < chosen; ++k)
    if (const int64_t row = row_of(places, first + k, all_rows, fault); row >= 0)
      sum += (weights == nullptr ? 1.0f : weights[first + k]) * to_float(x[row * width + i % width]);
  y[i] = from_float<T>(sum);
}

// A block of threads for each choice.
template <typename T>
__global__ void backward(T* dx, float* dweights, const T* dy, const T* x, const float* weights,
                         const int32_t* places, int64_t chosen, int64_t width, int64_t all_rows,
                         CudaFault* fault) {
  const int64_t choice = blockIdx.x, row = row_of(places, choice, all_rows, fault);
  const T* from = dy + choice / chosen * width;
  double dot = 0;
  for (int64_t c = threadIdx.x; row >= 0 && c < width; c += kThreads) {
    dot += static_cast<double>(to_float(from[c])) * static_cast<double>(to_float(x[row * width + c]));
    dx[row * width + c] = from_float<T>(weights[choice] * to_float(from[c]));
  }
  const double sum = block_reduce(dot, Sum());
  if (threadIdx.x == 0) dweights[choice] = static_cast<float>(sum);
}

}  // namespace

Error gather_rows(Stream stream, Dtype type, void* y, const void* x, const int32_t* tokens, int64_t rows,
                  int64_t width, int64_t all_tokens) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, gather<T>, blocks_of(rows * width), kThreads, out<T>(y), in<T>(x), tokens,
                  rows * width, width, all_tokens, fault_of(stream));
  });
}

Error sum_places(Stream stream, Dtype type, void* y, const void* x, const float* weights,
                 const int32_t* places, int64_t tokens, int64_t chosen, int64_t width, int64_t all_rows) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, sum_chosen<T>, blocks_of(tokens * width), kThreads, out<T>(y), in<T>(x), weights,
                  places, tokens * width, chosen, width, all_rows, fault_of(stream));
  });
}

Error combine_backward(Stream stream, Dtype type, void* dx, float* dweights, const void* dy, const void* x,
                       const float* weights, const int32_t* places, int64_t tokens, int64_t chosen,
                       int64_t width, int64_t all_rows) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, backward<T>, tokens * chosen, kThreads, out<T>(dx), dweights, in<T>(dy), in<T>(x),
                  weights, places, chosen, width, all_rows, fault_of(stream));
  });
}

}  // namespace athanor::kernels::cuda
