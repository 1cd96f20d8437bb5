// Sums over the rows of a matrix, in blocks of 32 rows, the blocks added in order (kernels/elementwise.h).
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

// A thread for each column of each block of rows.
template <typename T>
__global__ void column_partials(float* partials, const T* x, int64_t rows, int64_t width, int64_t n) {
  const int64_t i = element();
  if (i >= n) return;
  const int64_t first = i / width * kReduceRows, column = i % width;
  const int64_t last = first + kReduceRows < rows ? first + kReduceRows : rows;
  float sum = 0;
  for (int64_t row = first; row < last; ++row) sum += to_float(x[row * width + column]);
  partials[i] = sum;
}

__global__ void add_partial_rows(float* out, const float* partials, int64_t rows, int64_t width) {
  const int64_t column = element();
  if (column >= width) return;
  float sum = out[column];
  for (int64_t row = 0; row < rows; ++row) sum += partials[row * width + column];
  out[column] = sum;
}

}  // namespace

Error add_partials(Stream stream, float* out, const float* partials, int64_t rows, int64_t width) {
  return launch(stream, add_partial_rows, blocks_of(width), kThreads, out, partials, rows, width);
}

Error column_sum(Stream stream, Dtype type, float* sum, float* partials, const void* x, int64_t rows,
                 int64_t width) {
  const int64_t blocks = num_blocks(rows, kReduceRows);
  const Error error = with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, column_partials<T>, blocks_of(blocks * width), kThreads, partials, in<T>(x), rows,
                  width, blocks * width);
  });
  return error != nullptr ? error : add_partials(stream, sum, partials, blocks, width);
}

}  // namespace athanor::kernels::cuda
