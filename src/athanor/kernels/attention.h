// Causal attention with grouped queries, in tiles with an online softmax: never a T x S matrix in memory
// (Dao et al., FlashAttention, 2022; FlashAttention-2, 2023).
//
//   forward    o = softmax(scale * q k^T, causal) v;   lse = log sum exp of each row of scores
//   backward   p = exp(scale * q k^T - lse), delta = sum_D(do * o):
//              dv = p^T do,   ds = p * (do v^T - delta),   dq = scale * ds k,   dk = scale * ds^T q
//
// q, o, do, dq [B,T,H,D] T;  k, v, dk, dv [B,S,K,D] T with H a multiple of K (head h uses k/v head h /
// (H/K)); lse [B,H,T] f32. Query t sees keys 0 ... t + S - T (S >= T: the last T of S positions, as with a KV
// cache). Keys and values that a query does not see leave its o and lse alone even where they are not finite.
// backward needs S == T. Outputs are overwritten; they depend neither on the number of threads nor on the
// other sequences of a batch.
#pragma once

namespace athanor {

class Queue;
class Tensor;

struct AttentionKernels {
  void (*forward)(Queue&, Tensor& o, Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                  float scale);
  void (*backward)(Queue&, Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& d_o, const Tensor& o,
                   const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, float scale);
};

}  // namespace athanor
