// Rotary position embedding (kernels/rope.h) as a value that the CPU drivers pass on: to a loop of its own, or into a
// matrix product, whose threads rotate the rows that they have just computed.
//
//   const Rotation rotation = rotation_of(queue, "rope.apply", x, cos, sin, first_position);   // Error: its contract's
//   rotate(queue, y, x, rotation, +1);
#pragma once

#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {

struct Rotation {
  const RopeRows* rows;
  RowType type;
  const float *cos, *sin;
  int64_t length, first_position;  // rows of a sequence; the position of its first
  int64_t heads, head_dim;

  // Rotates `some_heads` neighbouring heads of the rows [row, row + count) of [B*T,H*D]. y and x point at the first of
  // these heads in row `row`. y may be x.
  void apply(void* y, const void* x, int64_t row, int64_t count, int64_t some_heads, int sign) const;
};

// Rotates all rows of x into y.
void rotate(Queue& queue, Tensor& y, const Tensor& x, const Rotation& rotation, int sign);

// For x [B,T,H,D].
Rotation rotation_of(Queue& queue, const char* kernel, const Tensor& x, const Tensor& cos, const Tensor& sin,
                     int64_t first_position);

}  // namespace athanor::kernels
