// Matrix products: the three of a linear layer. All matrices are row-major; sums are f32.
//
//   nt   c [M,N] T or f32  = a [M,K] T . b [N,K]^T T (+ bias [N] T)      y  = x . W^T + bias
//   nn   c [M,N] T or f32  = a [M,K] T . b [K,N] T                       dx = dy . W
//   tn   c [M,N] f32    (+)= a [K,M]^T T . b [K,N] T                     dW += dy^T . x
//
//   kernels_of(x).gemm.nt(queue, y, x, w, &bias);
//
// nt and nn overwrite c; tn overwrites it unless `add`, then it adds. Leading dimensions are flattened: x may be
// [B,T,C] with M = B*T. `bias` may be null. c of nt and nn may be f32 where a and b are bf16 or f16 (logits). Each
// output element is one sum, in an order that depends on the shapes and the instruction set alone.
//
// Fused forms have the bits of the separate kernels and save a pass over memory (a CUDA device rounds the sum of nt_add and
// nn_add once, after the residual was added):
//   nt_add, nn_add   c = residual + T(a . b); residual [M,N] T is not c
//   tn_sums          tn, and sums [M] f32 += the column sums of a (db of a linear layer), in an order like that of c
//   nt_rope          nt, then rope.apply in place with sign +1; c [B,T,H,D] T, cos and sin as in rope.h
#pragma once

#include <cstdint>

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

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

}  // namespace athanor::kernels
