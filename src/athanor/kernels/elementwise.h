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
//   square_blocks  the sums of sum_squares' blocks, by whoever has just made them and where no kernel can be called: a
//                function of the queue's instruction set, or null for devices. squares [norm_blocks(count)] of
//                x [count] f32. add_in_tree(squares) is what sum_squares gives.
#pragma once

#include <cstdint>
#include <span>

namespace athanor {

class Queue;
class Tensor;

// In elements. Pieces of a tensor that are cut at its multiples can be summed apart: a piece that is a node of the tree
// over the tensor's blocks has that node's sum, so any number of ranks finds the same bits.
constexpr int64_t kNormBlock = 256;
constexpr int64_t norm_blocks(int64_t elements) {
  return (elements + kNormBlock - 1) / kNormBlock;
}

using SquareBlocks = void (*)(const float* x, int64_t count, double* squares);
// The values added in the fixed tree, in place: neighbours first. 0 of nothing.
double add_in_tree(std::span<double> values);

struct ElementwiseKernels {
  void (*add)(Queue&, Tensor& y, const Tensor& a, const Tensor& b);
  void (*accumulate)(Queue&, Tensor& y, const Tensor& x);
  void (*scale)(Queue&, Tensor& x, float factor);
  void (*column_sum)(Queue&, Tensor& out, const Tensor& x);
  void (*cast)(Queue&, Tensor& y, const Tensor& x);
  void (*sum_squares)(Queue&, std::span<const Tensor> xs, std::span<double> sums);
  SquareBlocks (*square_blocks)(const Queue&);
};

}  // namespace athanor
