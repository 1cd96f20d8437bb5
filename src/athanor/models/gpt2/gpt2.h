// GPT-2 (Radford et al., 2019): learned positions, pre-norm blocks with LayerNorm, attention, GELU.
//   x += o(attention(q(n), k(n), v(n))),  n = layer_norm(x);    x += down(gelu(up(n))),  n = layer_norm(x)
//
//   models::gpt2::Gpt2 model(resolved_config.model);       // or make_model() (models/model.h)
//
// Shapes, errors and thread rule: as Model.
#pragma once

#include "athanor/models/model.h"
#include "athanor/nn/embedding.h"
#include "athanor/nn/norm.h"
#include "athanor/nn/residual.h"

namespace athanor::models::gpt2 {

class Gpt2Block : public Module {
 public:
  Gpt2Block(Module* parent, const std::string& name, const ModelConfig& config, const LayerMask* mask);
  Var operator()(const Var& x, KvCache* cache) const;

 private:
  LayerNormLayer attn_norm_;
  SelfAttention attn_;
  Dropout attn_dropout_;
  LayerNormLayer mlp_norm_;
  Module mlp_;
  Linear up_, down_;
  Dropout mlp_dropout_;
};

class Gpt2 : public Model {
 public:
  explicit Gpt2(const ModelConfig& config);
  Var embed(Tape& tape, const ModelInputs& inputs, int64_t first_position) const override;
  Var block(int64_t index, const Var& x, KvCache* cache) const override;
  Var final_norm(const Var& x) const override { return norm_(x); }
  const Linear& head_layer() const override { return *head_; }

 protected:
  bool uses_rope() const override { return false; }

 private:
  TokenEmbedding embed_;
  TokenEmbedding positions_;
  Dropout embed_dropout_;
  Module blocks_root_;
  std::vector<std::unique_ptr<Gpt2Block>> blocks_;
  LayerNormLayer norm_;
  std::unique_ptr<Linear> head_;
};

}  // namespace athanor::models::gpt2
