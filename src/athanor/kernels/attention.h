// Scaled dot-product attention with grouped queries, causal or not. It works tile by tile with an online softmax, so
// the T x S matrix of scores never exists (Dao et al., FlashAttention, 2022; FlashAttention-2, 2023).
//
//   kernels_of(q).attention.forward(queue, o, lse, q, k, v, scale, {});      // {}: all queries and keys, causal
//
//   forward    o = softmax(scale * q k^T, causal) v;   lse = log sum exp of each row of scores
//   backward   p = exp(scale * q k^T - lse), delta = sum_D(do * o):
//              dv = p^T do,   ds = p * (do v^T - delta),   dq = scale * ds k,   dk = scale * ds^T q
//   merge      joins the results for two sets of keys:
//              o = (e^lse o + e^lse' o') / (e^lse + e^lse'),   lse = log(e^lse + e^lse')
//
//   add_sinks  gives each head a logit s_h without a value, as gpt-oss does. It follows forward, or the last merge, and
//              backward takes its o and lse:   o = o / (1 + e^(s_h - lse)),   lse = log(e^lse + e^s_h)
//   sinks_backward   d_sinks[h] -= sum over queries of e^(s_h - lse) delta
//
// q, dq [B,T,H,D] T;  o, do [B,T,H,E] T;  k, dk [B,S,K,D] T;  v, dv [B,S,K,E] T;  E is D in most models. H is a
// multiple of K (query head h uses key/value head h / (H/K));  lse [B,H,T] f32;  sinks, d_sinks [H] f32. Causal: query
// t sees the keys 0 ... t + S - T, with S >= T (the queries are the last T of S positions, as with a KV cache). Causal
// backward needs S == T. A key or value that a query does not see never changes the query's o or lse, even if it is
// infinite or NaN. Outputs are overwritten. A result depends neither on the number of threads nor on the other
// sequences of the batch.
//
// An AttentionPart restricts a call to a range of queries and a range of keys, and says which of those keys are masked.
// Rows outside the ranges are neither read nor written, and T and S above are the lengths of the ranges. A block of
// keys that no query sees is not read. A query that sees no key has o = 0, lse = -infinity and dq = 0.
//
// Attention over several ranges of keys (ring attention): run forward on each range and merge() the results; then run
// backward on each range with the merged o and lse, and sum the dq of the ranges.
#pragma once

#include <cstdint>

#include "athanor/kernels/attention_scores.h"
#include "athanor/masks/attention_mask.h"
#include "athanor/tensor/forward.h"

namespace athanor::kernels {

struct AttentionPart {
  int64_t first_query = 0, queries = -1;  // rows of q, o, lse, do, dq; -1: all from the first on
  int64_t first_key = 0, keys = -1;       // rows of k, v, dk, dv; -1: all from the first on
  bool causal = true;                     // false: a query sees all keys of the range
  // Intervals of keys, [B,T] i32 over all of q, never falling along T; null: none. Query t sees no row of k before
  // first_keys[b,t] (where its document begins), and none from end_keys[b,t] on (where it ends, or the padding begins).
  const Tensor* first_keys = nullptr;
  const Tensor* end_keys = nullptr;
  // Shows some pairs of these queries and keys and hides the others; null: shows all. It has H heads, and those that
  // share keys have one rule. What it costs is the blocks that it lists (masks/attention_mask.h): a block that is not
  // listed is not read, and to skip it gives the bits that looking at it and hiding all of it gives.
  const AttentionMask* mask = nullptr;
  // Softcap, bias and dropout of probabilities; null: none.
  const AttentionScores* scores = nullptr;
};

struct AttentionKernels {
  void (*forward)(Queue&, Tensor& o, Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                  float scale, const AttentionPart& part);
  void (*backward)(Queue&, Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& d_o, const Tensor& o,
                   const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, float scale,
                   const AttentionPart& part);
  // Merges o [B,T,H,E] T and o_lse into sum [B,T,H,E] f32 and lse, for the queries [first, first + count).
  void (*merge)(Queue&, Tensor& sum, Tensor& lse, const Tensor& o, const Tensor& o_lse, int64_t first,
                int64_t count);
  // A query without keys keeps o = 0; its lse becomes s_h. A sink of -infinity changes nothing.
  void (*add_sinks)(Queue&, Tensor& o, Tensor& lse, const Tensor& sinks);
  // Of the o and lse that add_sinks gave. Sums are f64, over sequences and queries in their order.
  void (*sinks_backward)(Queue&, Tensor& d_sinks, const Tensor& d_o, const Tensor& o, const Tensor& lse,
                         const Tensor& sinks);
};

}  // namespace athanor::kernels
