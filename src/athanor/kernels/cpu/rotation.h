// The rotation of kernels/rope.h as the CPU drivers hand it on: to a loop of its own, or to the thread that has just
// made the rows.
//
//   const Rotation rotation = rotation_of(queue, "rope.apply", x, cos, sin, first_position);   // Error: the contract's
//   rotate(queue, y, x, rotation, +1);
#pragma once

#include "athanor/kernels/cpu/cpu.h"

namespace athanor {

struct Rotation {
  const RopeRows* rows;
  RowType type;
  const float *cos, *sin;
  int64_t length, first_position;  // rows of a sequence; the position of its first
  int64_t heads, head_dim;

  // Some neighbouring heads of the rows [row, row + count) of [B*T,H*D], the first of them at y and x. y may be x.
  void apply(void* y, const void* x, int64_t row, int64_t count, int64_t some_heads, int sign) const;
};

// All rows of x, into y.
void rotate(Queue& queue, Tensor& y, const Tensor& x, const Rotation& rotation, int sign);

// For x [B,T,H,D].
Rotation rotation_of(Queue& queue, const char* kernel, const Tensor& x, const Tensor& cos, const Tensor& sin,
                     int64_t first_position);

}  // namespace athanor
