// LLaMA (Touvron et al., 2023): pre-norm blocks with RMSNorm, rotary embeddings, grouped-query attention, SwiGLU.
//   x += o(attention(rope(q(n)), rope(k(n)), v(n))),  n = rms_norm(x)
//   x += down(swiglu(gate(n), up(n))),  n = rms_norm(x)
//
//   models::llama::Llama model(resolved_config.model);     // or make_model() (models/model.h)
//
// Shapes, errors and thread rule: as Model.
#pragma once

#include <functional>

#include "athanor/models/model.h"
#include "athanor/nn/embedding.h"
#include "athanor/nn/feed_forward.h"
#include "athanor/nn/norm.h"
#include "athanor/nn/residual.h"

namespace athanor::models::llama {

// Makes the feed-forward half of block `index` as a child of `block`. Families that differ from LLaMA only there pass
// their own function.
using MakeFeedForward = std::function<std::unique_ptr<FeedForward>(Module* block, int64_t index)>;

std::unique_ptr<FeedForward> make_llama_mlp(Module* block, const ModelConfig& config);  // module "mlp"

class LlamaBlock : public Module {
 public:
  LlamaBlock(Module* parent, int64_t index, const ModelConfig& config, const LayerMask* mask,
             const MakeFeedForward& make);
  Var operator()(const Var& x, const RopeTable& rope_table, KvCache* cache) const;

 private:
  RmsNormLayer attn_norm_;
  SelfAttention attn_;
  Dropout attn_dropout_;
  RmsNormLayer mlp_norm_;
  std::unique_ptr<FeedForward> mlp_;
  Dropout mlp_dropout_;
};

class Llama : public Model {
 public:
  explicit Llama(const ModelConfig& config);
  Llama(const ModelConfig& config, const MakeFeedForward& make);
  Var embed(Tape& tape, const ModelInputs& inputs, int64_t first_position) const override;
  Var block(int64_t index, const Var& x, KvCache* cache) const override;
  Var final_norm(const Var& x) const override { return norm_(x); }
  const Linear& head_layer() const override { return *head_; }

 protected:
  bool uses_rope() const override { return true; }

 private:
  TokenEmbedding embed_;
  Dropout embed_dropout_;
  Module blocks_root_;
  std::vector<std::unique_ptr<LlamaBlock>> blocks_;
  RmsNormLayer norm_;
  std::unique_ptr<Linear> head_;
};

}  // namespace athanor::models::llama
