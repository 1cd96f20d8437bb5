// Causal attention with grouped queries, in tiles with an online softmax: never a T x S matrix in memory
// (Dao et al., FlashAttention, 2022; FlashAttention-2, 2023).
//
//   forward    o = softmax(scale * q k^T, causal) v;   lse = log sum exp of each row of scores
//   backward   p = exp(scale * q k^T - lse), delta = sum_D(do * o):
//              dv = p^T do,   ds = p * (do v^T - delta),   dq = scale * ds k,   dk = scale * ds^T q
//   merge      of two sets of keys, o = (e^lse o + e^lse' o') / (e^lse + e^lse'), lse = log(e^lse + e^lse')
//
// q, o, do, dq [B,T,H,D] T;  k, v, dk, dv [B,S,K,D] T with H a multiple of K (head h uses k/v head h /
// (H/K)); lse [B,H,T] f32. Query t sees keys 0 ... t + S - T (S >= T: the last T of S positions, as with a KV
// cache). Keys and values that a query does not see leave its o and lse alone even where they are not finite.
// backward needs S == T. Outputs are overwritten; they depend neither on the number of threads nor on the
// other sequences of a batch.
//
// An AttentionPart makes it a call about some of the rows (the others are neither read nor written), in which T and S
// are those of the part, and says what else is hidden: whole blocks of keys that nobody sees are never touched. A
// query that sees no key has o = 0, lse = -infinity and dq = 0. The gradient of a softmax over more keys than
// those of the part is that of the parts, each with the o and lse of all keys: dq is then one addend.
#pragma once

#include <cstdint>

namespace athanor {

class Queue;
class Tensor;

struct AttentionPart {
  int64_t first_query = 0, queries = -1;  // rows of q, o, lse, do, dq; -1: all from the first on
  int64_t first_key = 0, keys = -1;       // rows of k, v, dk, dv
  bool causal = true;                     // false: a query sees all keys of the part
  // [B,T] i32, rising in T, or null: the row of k where each query's document begins; it sees none before.
  const Tensor* first_keys = nullptr;
};

struct AttentionKernels {
  void (*forward)(Queue&, Tensor& o, Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                  float scale, const AttentionPart& part);
  void (*backward)(Queue&, Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& d_o, const Tensor& o,
                   const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, float scale,
                   const AttentionPart& part);
  // sum [B,T,H,D] f32 and lse: what was merged so far; its rows of queries [first, first + count) take in those of
  // o T and o_lse.
  void (*merge)(Queue&, Tensor& sum, Tensor& lse, const Tensor& o, const Tensor& o_lse, int64_t first,
                int64_t count);
};

}  // namespace athanor
