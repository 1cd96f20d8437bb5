// Sums over the rows of a matrix (kernels/elementwise.h).
#include "athanor/kernels/cuda/device/row_sums.cuh"

#include "athanor/kernels/cuda/device/kernels.h"

namespace athanor::kernels::cuda {
namespace {

template <typename T>
struct ColumnTerm {
  const T* x;
  template <int kCount>
  __device__ void add(float* sums, int64_t /*row*/, int64_t at) const {
    const auto pack = pack_at<kCount>(x + at);
    for (int i = 0; i < kCount; ++i) sums[i] += to_float(pack.at[i]);
  }
};

// A lane for each column; a warp adds each eighth row, and the first warp the sums of all.
__global__ void add_partial_rows(float* out, const float* partials, int64_t rows, int64_t width) {
  __shared__ float sums[kWarps][kLanes];
  const int64_t warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int64_t column = int64_t{blockIdx.x} * kLanes + lane;
  float sum = 0;
  if (column < width)
#pragma unroll 4
    for (int64_t row = warp; row < rows; row += kWarps) sum += partials[row * width + column];
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= width) return;
  float total = out[column];
  for (int other = 0; other < kWarps; ++other) total += sums[other][lane];
  out[column] = total;
}

}  // namespace

Error add_partials(Stream stream, float* out, const float* partials, int64_t rows, int64_t width) {
  return launch(stream, add_partial_rows, num_blocks(width, kLanes), kThreads, out, partials, rows, width);
}

Error column_sum(Stream stream, Dtype type, float* sum, float* partials, const void* x, int64_t rows,
                 int64_t width) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return add_row_sums<kPackOf<T>>(stream, sum, partials, has_packs(kPackOf<T>, width, in<T>(x)),
                                    ColumnTerm<T>{in<T>(x)}, rows, width);
  });
}

}  // namespace athanor::kernels::cuda
