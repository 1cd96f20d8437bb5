// Sums, conversions and norms of whole tensors.
//
//   add          y = a + b                       T, one shape; y may be a or b
//   accumulate   y += x                          f32
//   scale        x *= factor                     f32, in place
//   column_sum   out [C] f32 += sum over rows of x [..., C] T, in blocks of 32 rows, the blocks added in order
//   cast         y = x                           any two of f32, bf16, f16; round to nearest even
//   sum_squares  sums[i] = sum of xs[i][j]^2, xs f32: blocks of kNormBlock elements, each summed in f64 lanes of fixed
//                order, the blocks added in the fixed binary tree of comm/tree.h; not finite if any element is not.
//                0 on the null device.
#pragma once

#include <cstdint>
#include <span>

namespace athanor {

class Queue;
class Tensor;

// In elements. Pieces of a tensor that are cut at its multiples can be summed apart: a piece that is a node of the tree
// over the tensor's blocks has that node's sum, so any number of ranks finds the same bits.
constexpr int64_t kNormBlock = 256;

struct ElementwiseKernels {
  void (*add)(Queue&, Tensor& y, const Tensor& a, const Tensor& b);
  void (*accumulate)(Queue&, Tensor& y, const Tensor& x);
  void (*scale)(Queue&, Tensor& x, float factor);
  void (*column_sum)(Queue&, Tensor& out, const Tensor& x);
  void (*cast)(Queue&, Tensor& y, const Tensor& x);
  void (*sum_squares)(Queue&, std::span<const Tensor> xs, std::span<double> sums);
};

}  // namespace athanor
