// What changes the scores and probabilities of attention beside its mask. Without it (AttentionPart::scores is null) the
// score of a query and a key is scale * q.k and a probability is exp(score - lse). With it
//
//   x = scale * q.k,   y = softcap > 0 ? softcap * tanh(x / softcap) : x,   score = y + bias[h, bucket(j - i)]
//   p = exp(score - lse),   o = sum of keep(i, j) p v,   keep(i, j) = 0, or 1 / (1 - rate)
//   ds = p (keep * do.v - delta),   d_bias[h, bucket(j - i)] += ds,   dx = ds (1 - (y / softcap)^2)
//
// for the query at position i and the key at position j of their sequences; the mask then hides pairs.
//
//   const AttentionScores scores{.bias = &table, .bucket_of = &buckets, .d_bias = &d_table};      // T5's relative bias
//   kernels_of(q).attention.backward(queue, dq, dk, dv, d_o, o, lse, q, k, v, /*scale=*/1, {.scores = &scores});
//
// bias is a table by distance where bucket_of is null: bucket(d) = d + n - 1 of 2n - 1 buckets (ALiBi: -m_h |d|).
// Otherwise bucket(d) = bucket_of[d + n - 1] of the 2n - 1 distances. Every |j - i| of the call is below n.
// keep(i, j) is drawn by address: stream `key`, element ((sequence * heads + head) * queries + i) * keys + j of the
// step's global batch, so it is the same in any layout, tile and thread, and in both passes.
//
// d_bias is summed over sequences and blocks of 256 keys in their order, within a block over blocks of 256 queries, in
// f64: it depends neither on the number of threads nor on what the mask skips.
// Speed: tiles of f32 vectors in every element type; the kernels of bf16 products refuse these calls, as they do calls
// whose v is not as wide as q. The CUDA kernels refuse them by name.
// Sources: T5 (Raffel et al., 2020), ALiBi (Press et al., 2022), softcap (Gemma 2, 2024). Errors: Error for tables,
// positions and rates that do not fit. Thread rule: a value; what it points to outlives the call.
#pragma once

#include <cstdint>

#include "athanor/masks/attention_mask.h"
#include "athanor/tensor/forward.h"

namespace athanor::kernels {

struct AttentionDropout {
  float rate = 0;  // of probabilities; 0: none
  uint64_t key = 0, step = 0;
  int64_t first_sequence = 0;                 // of the batch, in the step's global batch
  int64_t first_head = 0, heads = 0;          // of q's heads, and all heads of the layer
  int64_t whole_queries = 0, whole_keys = 0;  // positions of a whole sequence
};

struct AttentionScores {
  float softcap = 0;                  // 0 or infinity: none
  const Tensor* bias = nullptr;       // [H, buckets] f32
  const Tensor* bucket_of = nullptr;  // [2n - 1] i32
  Tensor* d_bias = nullptr;           // [H, buckets] f32, += in backward; null: not wanted
  AttentionDropout dropout = {};
  // Of the queries and keys of the call's ranges. Empty: keys count from 0; queries are the last of the keys if causal,
  // or else count from 0.
  MaskPositions positions = {};
};

}  // namespace athanor::kernels
