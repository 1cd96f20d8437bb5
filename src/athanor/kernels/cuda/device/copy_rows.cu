// Copies rows that lie apart by other strides than they shall.
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

constexpr int64_t kEach = 8;  // elements of a thread, kThreads apart

// A block of threads for each part of a row.
template <typename T>
__global__ void copy_parts(T* to, int64_t to_row, const T* from, int64_t from_row, int64_t width,
                           int64_t parts) {
  const int64_t row = blockIdx.x / parts, first = blockIdx.x % parts * (kEach * kThreads) + threadIdx.x;
  T values[kEach];
  for (int64_t i = 0; i < kEach; ++i)
    if (first + i * kThreads < width) values[i] = from[row * from_row + first + i * kThreads];
  for (int64_t i = 0; i < kEach; ++i)
    if (first + i * kThreads < width) to[row * to_row + first + i * kThreads] = values[i];
}

}  // namespace

Error copy_rows(Stream stream, Dtype type, void* to, int64_t to_row, const void* from, int64_t from_row,
                int64_t width, int64_t rows) {
  const int64_t parts = num_blocks(width, kEach * kThreads);
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, copy_parts<T>, parts * rows, kThreads, out<T>(to), to_row, in<T>(from), from_row,
                  width, parts);
  });
}

}  // namespace athanor::kernels::cuda
