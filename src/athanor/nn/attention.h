// Self-attention with grouped queries (GQA), causal unless it is an encoder's: q, k, v projections, rotary embedding if a table is given, and
// attention, x [B,S,C] -> [B,S,H*D]; output() projects back, [B,S,H*D] -> [B,S,C]. H heads of D, K key/value heads.
//
//   SelfAttention attn(&block, "attn", {.width = 768, .heads = 12, .kv_heads = 4, .head_dim = 64});
//   Var y = attn.output()(attn(x, &rope_table, /*cache=*/nullptr));
//
// With a KvCache (one sequence, B = 1, no gradients) keys and values of the new positions are appended to it, and the
// queries attend to all cached positions. Errors: Error for a full cache. Thread rule: that of the model.
#pragma once

#include "athanor/nn/linear.h"
#include "athanor/nn/rope_table.h"

namespace athanor::nn {

// Keys and values of one layer for one sequence: [capacity,K,D] each, the first `length` rows in use.
struct KvCache {
  Tensor k, v;
  int64_t length = 0;
};

struct AttentionOptions {
  int64_t width, heads, kv_heads, head_dim;
  bool bias;
  double init_std;                  // of q, k, v
  double output_init_std;           // of the output projection
  const LayerMask* mask = nullptr;  // who sees whom beside the causal order; it outlives the layer
  bool causal = true;
};

class SelfAttention : public Module {
 public:
  SelfAttention(Module* parent, const std::string& name, const AttentionOptions& options);
  Var operator()(const Var& input, const RopeTable* rope_table, KvCache* cache) const;
  const Linear& output() const { return o_; }

 private:
  AttentionOptions options_;
  Linear q_, k_, v_, o_;
};

}  // namespace athanor::nn
