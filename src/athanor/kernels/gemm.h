// Matrix products, the three of a linear layer. All matrices are row-major; sums are f32.
//
//   nt   c [M,N] T or f32  = a [M,K] T . b [N,K]^T T (+ bias [N] T)      y  = x . W^T + bias
//   nn   c [M,N] T or f32  = a [M,K] T . b [K,N] T                       dx = dy . W
//   tn   c [M,N] f32    (+)= a [K,M]^T T . b [K,N] T                     dW += dy^T . x
//
// nt and nn overwrite c, tn too unless `add`: then it adds to it. Leading dimensions are flattened: x may be
// [B,T,C] where M = B*T.
// `bias` may be null. c of nt and nn may be f32 where a and b are bf16 or f16 (logits).
// Each output element is one sum in an order that depends on the shapes and the instruction set alone.
//
// nt_add and nn_add are nt and nn with an addition to their results, c = residual + T(a . b), that has the bits of the
// kernel `add` after them and saves a pass over memory. residual [M,N] T is not c itself. tn_sums is tn, and
// sums [M] f32 += the sums of a's columns (db of a linear layer), each in an order like those of c. nt_rope is nt and
// then the kernel rope.apply in place with sign +1, with its bits: c [B,T,H,D] T, cos and sin as in rope.h.
#pragma once

#include <cstdint>

namespace athanor {

class Queue;
class Tensor;

struct GemmKernels {
  void (*nt)(Queue&, Tensor& c, const Tensor& a, const Tensor& b, const Tensor* bias);
  void (*nn)(Queue&, Tensor& c, const Tensor& a, const Tensor& b);
  void (*tn)(Queue&, Tensor& c, const Tensor& a, const Tensor& b, bool add);
  void (*nt_add)(Queue&, Tensor& c, const Tensor& a, const Tensor& b, const Tensor* bias,
                 const Tensor& residual);
  void (*nn_add)(Queue&, Tensor& c, const Tensor& a, const Tensor& b, const Tensor& residual);
  void (*tn_sums)(Queue&, Tensor& c, Tensor& sums, const Tensor& a, const Tensor& b, bool add);
  void (*nt_rope)(Queue&, Tensor& c, const Tensor& a, const Tensor& b, const Tensor* bias, const Tensor& cos,
                  const Tensor& sin, int64_t first_position);
};

}  // namespace athanor
