// BERT (Devlin et al., 2019) and its kin, RoBERTa (Liu et al., 2019) and BigBird (Zaheer et al., 2020): an encoder that fills
// in masked tokens. Learned positions and token types, post-norm blocks with LayerNorm, attention to both sides, GELU.
//   x = layer_norm(word[id] + position[p] + type[t])
//   x = layer_norm(x + o(attention(q(x), k(x), v(x))));    x = layer_norm(x + down(gelu(up(x))))
//   logits = word . layer_norm(gelu(transform(x))) + bias
//
//   models::bert::Bert model(resolved_config.model);       // or make_model() (models/model.h)
//
// Shapes, errors and thread rule: as Model. It has no pooler: that is part of classifiers.
#pragma once

#include "athanor/models/model.h"
#include "athanor/nn/embedding.h"
#include "athanor/nn/norm.h"
#include "athanor/nn/residual.h"

namespace athanor::models::bert {

class BertBlock : public Module {
 public:
  BertBlock(Module* parent, const std::string& name, const ModelConfig& config, const LayerMask* mask);
  Var operator()(const Var& x) const;

 private:
  SelfAttention attn_;
  Dropout attn_dropout_;
  LayerNormLayer attn_norm_;
  Module mlp_;
  Linear up_, down_;
  Dropout mlp_dropout_;
  LayerNormLayer mlp_norm_;
  GeluForm gelu_;
};

class Bert : public Model {
 public:
  explicit Bert(const ModelConfig& config);
  Var embed(Tape& tape, const ModelInputs& inputs, int64_t first_position) const override;
  Var block(int64_t index, const Var& x, KvCache* cache) const override;
  Var final_norm(const Var& x) const override;  // what the head reads
  const Linear& head_layer() const override { return *head_; }
  Weight* head_bias() const override { return &head_bias_; }

 protected:
  bool uses_rope() const override { return false; }

 private:
  TokenEmbedding embed_, positions_;
  std::unique_ptr<TokenEmbedding> types_;  // null: the model has no token types
  LayerNormLayer embed_norm_;
  Dropout embed_dropout_;
  Module blocks_root_;
  std::vector<std::unique_ptr<BertBlock>> blocks_;
  Linear transform_;
  GeluForm gelu_;
  LayerNormLayer norm_;
  std::unique_ptr<Linear> head_;
  Weight& head_bias_;
};

}  // namespace athanor::models::bert
