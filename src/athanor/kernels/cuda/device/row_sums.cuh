// Sums over the rows of a matrix in two steps: a block of threads sums kRowsOfBlock rows of a strip of columns, then the
// sums of the blocks are added. The order depends on the shapes alone.
//
//   struct Term { template <int kCount> __device__ void add(float* sums, int64_t row, int64_t at) const; };
//   add_row_sums<8>(stream, out, partials, has_packs, Term{...}, rows, width);    // out [width] += sum over rows
//
// `add` adds the kCount elements of `row` that begin at element `at` of the matrix. partials: as in kernel_calls.h.
#pragma once

#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {

constexpr int64_t kRowsOfBlock = 512;
static_assert(kRowsOfBlock >= kReduceRows, "the workspace has a row for each kReduceRows rows");

// out [width] += the rows of partials [rows, width] (row_sums.cu).
Error add_partials(Stream stream, float* out, const float* partials, int64_t rows, int64_t width);

// A warp sums each eighth row of the block; a lane has kCount columns.
template <int kCount, typename Term>
__global__ void sum_blocks_of_rows(float* partials, Term term, int64_t rows, int64_t width, int64_t strips) {
  __shared__ float sums[kWarps][kLanes * kCount];
  const int64_t block = blockIdx.x / strips;
  const int64_t column = blockIdx.x % strips * (kLanes * kCount) + threadIdx.x % kLanes * kCount;
  const int64_t first = block * kRowsOfBlock, warp = threadIdx.x / kLanes;
  const int64_t last = first + kRowsOfBlock < rows ? first + kRowsOfBlock : rows;
  float mine[kCount] = {};
  if (column < width)
#pragma unroll 4
    for (int64_t row = first + warp; row < last; row += kWarps)
      term.template add<kCount>(mine, row, row * width + column);
  for (int i = 0; i < kCount; ++i) sums[warp][threadIdx.x % kLanes * kCount + i] = mine[i];
  __syncthreads();
  const int64_t first_of_strip = blockIdx.x % strips * (kLanes * kCount);
  for (int64_t i = threadIdx.x; i < kLanes * kCount && first_of_strip + i < width; i += kThreads) {
    float sum = sums[0][i];
    for (int other = 1; other < kWarps; ++other) sum += sums[other][i];
    partials[block * width + first_of_strip + i] = sum;
  }
}

template <int kCount, typename Term>
Error add_row_sums(Stream stream, float* out, float* partials, bool has_packs, Term term, int64_t rows,
                   int64_t width) {
  const int64_t blocks = num_blocks(rows, kRowsOfBlock);
  const auto run = [&](auto kernel, int64_t strips) {
    return launch(stream, kernel, blocks * strips, kThreads, partials, term, rows, width, strips);
  };
  const Error error = has_packs ? run(sum_blocks_of_rows<kCount, Term>, num_blocks(width, kLanes * kCount))
                                : run(sum_blocks_of_rows<1, Term>, num_blocks(width, kLanes));
  return error != nullptr ? error : add_partials(stream, out, partials, blocks, width);
}

}  // namespace athanor::kernels::cuda
