#include "athanor/models/gpt2/gpt2.h"

namespace athanor::models::gpt2 {

Gpt2Block::Gpt2Block(Module* parent, const std::string& name, const ModelConfig& c, const LayerMask* mask)
    : Module(parent, name),
      attn_norm_(this, "attn_norm", c.hidden_size, c.bias, c.rms_norm_eps),
      attn_(this, "attn",
            {c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.bias,
             c.initializer_range, residual_init_std(c), mask}),
      attn_dropout_(this, "attn_dropout", c.dropout),
      mlp_norm_(this, "mlp_norm", c.hidden_size, c.bias, c.rms_norm_eps),
      mlp_(this, "mlp"),
      up_(&mlp_, "up", c.hidden_size, c.intermediate_size, c.bias, c.initializer_range),
      down_(&mlp_, "down", c.intermediate_size, c.hidden_size, c.bias, residual_init_std(c)),
      mlp_dropout_(this, "mlp_dropout", c.dropout) {}

Var Gpt2Block::operator()(const Var& x, KvCache* cache) const {
  const Var h = add_residual(x, attn_.output(), attn_dropout_, attn_(attn_norm_(x), nullptr, cache));
  return add_residual(h, down_, mlp_dropout_, gelu(up_(mlp_.enter(mlp_norm_(h)))));
}

Gpt2::Gpt2(const ModelConfig& c)
    : Model(c),
      embed_(this, "embed", c.vocab_size, c.hidden_size, c.initializer_range),
      positions_(this, "positions", c.max_position_embeddings, c.hidden_size, c.initializer_range),
      embed_dropout_(this, "embed_dropout", c.dropout),
      blocks_root_(this, "blocks"),
      blocks_([&] {
        std::vector<std::unique_ptr<Gpt2Block>> blocks;
        for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
          begin_unit();
          blocks.push_back(std::make_unique<Gpt2Block>(&blocks_root_, std::to_string(i), c, layer_mask(i)));
        }
        begin_unit();
        return blocks;
      }()),
      norm_(this, "norm", c.hidden_size, c.bias, c.rms_norm_eps),
      head_(c.tie_word_embeddings ? std::make_unique<Linear>(this, "head", embed_.table().param())
                                  : std::make_unique<Linear>(this, "head", c.hidden_size, c.vocab_size, false,
                                                             c.initializer_range)) {}

Var Gpt2::embed(Tape& tape, const ModelInputs& inputs, int64_t first_position) const {
  return embed_dropout_(
      embed_.leave(embedding(tape, inputs.ids, embed_.table(), &positions_.table(), first_position)));
}

Var Gpt2::block(int64_t index, const Var& x, KvCache* cache) const {
  return (*blocks_.at(static_cast<size_t>(index)))(x, cache);
}

}  // namespace athanor::models::gpt2
