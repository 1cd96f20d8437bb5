// Sums, conversions and norms of whole tensors.
//
//   add          y = a + b                       T, one shape; y may be a or b
//   accumulate   y += x                          f32
//   scale        x *= factor                     f32, in place
//   column_sum   out [C] f32 += sum over rows of x [..., C] T, in blocks of 32 rows, the blocks added in order
//   cast         y = x                           any two of f32, bf16, f16; round to nearest even
//   sum_squares  sums[i] = sum of xs[i][j]^2, xs f32. Each block of kNormBlock elements is summed in f64 in a fixed
//                order; the blocks are added in the fixed binary tree of comm/tree.h. A sum is not finite if an element
//                is not. 0 on the null device.
#pragma once

#include <cstdint>
#include <span>

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

// Elements of a block of sum_squares. Ranks that hold shards of a tensor, split at multiples of kNormBlock, can sum
// them apart: a shard is covered by nodes of the tree over the tensor's blocks, so any number of ranks finds the same
// bits.
constexpr int64_t kNormBlock = 256;

struct ElementwiseKernels {
  void (*add)(Queue&, Tensor& y, const Tensor& a, const Tensor& b);
  void (*accumulate)(Queue&, Tensor& y, const Tensor& x);
  void (*scale)(Queue&, Tensor& x, float factor);
  void (*column_sum)(Queue&, Tensor& out, const Tensor& x);
  void (*cast)(Queue&, Tensor& y, const Tensor& x);
  void (*sum_squares)(Queue&, std::span<const Tensor> xs, std::span<double> sums);
};

}  // namespace athanor::kernels
