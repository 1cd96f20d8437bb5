// Causal self-attention with grouped queries: q, k, v projections, rotary embedding if a table is given, attention:
// x [B,S,C] -> [B,S,H*D], and the projection back, output(): [B,S,H*D] -> [B,S,C]. Heads H of D, key/value heads K.
//
// With a KvCache (one sequence, B = 1, no gradients) the keys and values of the new positions are appended to
// it and the queries see all of it.
#pragma once

#include "athanor/nn/linear.h"
#include "athanor/nn/rope_table.h"

namespace athanor {

// Keys and values of one layer for one sequence: [capacity,K,D] each, the first `length` rows in use.
struct KvCache {
  Tensor k, v;
  int64_t length = 0;
};

struct AttentionOptions {
  int64_t width, heads, kv_heads, head_dim;
  bool bias;
  double init_std;         // of q, k, v
  double output_init_std;  // of the output projection
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

}  // namespace athanor
