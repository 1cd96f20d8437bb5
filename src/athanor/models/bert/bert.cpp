#include "athanor/models/bert/bert.h"

namespace athanor::models::bert {
namespace {

GeluForm gelu_form(const ModelConfig& c) {
  return c.hidden_act == "gelu_new" ? GeluForm::tanh : GeluForm::exact;
}

}  // namespace

BertBlock::BertBlock(Module* parent, const std::string& name, const ModelConfig& c, const LayerMask* mask)
    : Module(parent, name),
      attn_(this, "attn",
            {c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.bias,
             c.initializer_range, c.initializer_range, mask, /*causal=*/false}),
      attn_dropout_(this, "attn_dropout", c.dropout),
      attn_norm_(this, "attn_norm", c.hidden_size, c.bias, c.rms_norm_eps),
      mlp_(this, "mlp"),
      up_(&mlp_, "up", c.hidden_size, c.intermediate_size, c.bias, c.initializer_range),
      down_(&mlp_, "down", c.intermediate_size, c.hidden_size, c.bias, c.initializer_range),
      mlp_dropout_(this, "mlp_dropout", c.dropout),
      mlp_norm_(this, "mlp_norm", c.hidden_size, c.bias, c.rms_norm_eps),
      gelu_(gelu_form(c)) {}

Var BertBlock::operator()(const Var& x) const {
  const Var h = attn_norm_(add_residual(x, attn_.output(), attn_dropout_, attn_(x, nullptr, nullptr)));
  return mlp_norm_(add_residual(h, down_, mlp_dropout_, gelu(up_(mlp_.enter(h)), gelu_)));
}

Bert::Bert(const ModelConfig& c)
    : Model(c),
      embed_(this, "embed", c.vocab_size, c.hidden_size, c.initializer_range),
      positions_(this, "positions", c.max_position_embeddings + c.position_offset, c.hidden_size,
                 c.initializer_range),
      types_(c.type_vocab_size == 0 ? nullptr
                                    : std::make_unique<TokenEmbedding>(this, "token_types", c.type_vocab_size,
                                                                       c.hidden_size, c.initializer_range)),
      embed_norm_(this, "embed_norm", c.hidden_size, c.bias, c.rms_norm_eps),
      embed_dropout_(this, "embed_dropout", c.dropout),
      blocks_root_(this, "blocks"),
      blocks_([&] {
        std::vector<std::unique_ptr<BertBlock>> blocks;
        for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
          begin_unit();
          blocks.push_back(std::make_unique<BertBlock>(&blocks_root_, std::to_string(i), c, layer_mask(i)));
        }
        begin_unit();
        return blocks;
      }()),
      transform_(this, "transform", c.hidden_size, c.hidden_size, c.bias, c.initializer_range),
      gelu_(gelu_form(c)),
      norm_(this, "norm", c.hidden_size, c.bias, c.rms_norm_eps),
      head_(c.tie_word_embeddings ? std::make_unique<Linear>(this, "head", embed_.table().param())
                                  : std::make_unique<Linear>(this, "head", c.hidden_size, c.vocab_size, false,
                                                             c.initializer_range)),
      head_bias_(head_->declare("bias", {c.vocab_size}, Init::zeros())) {}

Var Bert::embed(Tape& tape, const ModelInputs& inputs, int64_t first_position) const {
  const int64_t first_row = first_position + config().position_offset;
  const Var words = types_ == nullptr
                        ? embedding(tape, inputs.ids, embed_.table(), &positions_.table(), first_row)
                        : embedding(tape, inputs.ids, embed_.table(), &positions_.table(), first_row,
                                    types_->table(), inputs.token_types);
  return embed_dropout_(embed_norm_(embed_.leave(words)));
}

Var Bert::block(int64_t index, const Var& x, KvCache* cache) const {
  check(cache == nullptr, "model: an encoder has no cache of keys and values");
  return (*blocks_.at(static_cast<size_t>(index)))(x);
}

Var Bert::final_norm(const Var& x) const {
  return norm_(gelu(transform_(x), gelu_));
}

}  // namespace athanor::models::bert
