#include "athanor/models/llama/llama.h"

namespace athanor::models::llama {

std::unique_ptr<FeedForward> make_llama_mlp(Module* block, const ModelConfig& c) {
  return std::make_unique<SwigluMlp>(block, "mlp",
                                     SwigluMlp::Options{c.hidden_size, c.intermediate_size, c.bias,
                                                        c.initializer_range, residual_init_std(c)});
}

LlamaBlock::LlamaBlock(Module* parent, int64_t index, const ModelConfig& c, const LayerMask* mask,
                       const MakeFeedForward& make)
    : Module(parent, std::to_string(index)),
      attn_norm_(this, "attn_norm", c.hidden_size, c.rms_norm_eps),
      attn_(this, "attn",
            {c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.bias,
             c.initializer_range, residual_init_std(c), mask}),
      attn_dropout_(this, "attn_dropout", c.dropout),
      mlp_norm_(this, "mlp_norm", c.hidden_size, c.rms_norm_eps),
      mlp_(make(this, index)),
      mlp_dropout_(this, "mlp_dropout", c.dropout) {}

Var LlamaBlock::operator()(const Var& x, const RopeTable& rope_table, KvCache* cache) const {
  const Var h = add_residual(x, attn_.output(), attn_dropout_, attn_(attn_norm_(x), &rope_table, cache));
  return mlp_->add_to(h, mlp_norm_(h), mlp_dropout_);
}

Llama::Llama(const ModelConfig& c)
    : Llama(c, [&](Module* block, int64_t) { return make_llama_mlp(block, c); }) {}

Llama::Llama(const ModelConfig& c, const MakeFeedForward& make)
    : Model(c),
      embed_(this, "embed", c.vocab_size, c.hidden_size, c.initializer_range),
      embed_dropout_(this, "embed_dropout", c.dropout),
      blocks_root_(this, "blocks"),
      blocks_([&] {
        std::vector<std::unique_ptr<LlamaBlock>> blocks;
        for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
          begin_unit();
          blocks.push_back(std::make_unique<LlamaBlock>(&blocks_root_, i, c, layer_mask(i), make));
        }
        begin_unit();
        return blocks;
      }()),
      norm_(this, "norm", c.hidden_size, c.rms_norm_eps),
      head_(c.tie_word_embeddings ? std::make_unique<Linear>(this, "head", embed_.table().param())
                                  : std::make_unique<Linear>(this, "head", c.hidden_size, c.vocab_size, false,
                                                             c.initializer_range)) {}

Var Llama::embed(Tape& tape, const ModelInputs& inputs, int64_t first_position) const {
  return embed_dropout_(embed_.leave(embedding(tape, inputs.ids, embed_.table(), nullptr, first_position)));
}

Var Llama::block(int64_t index, const Var& x, KvCache* cache) const {
  return (*blocks_.at(static_cast<size_t>(index)))(x, rope_, cache);
}

}  // namespace athanor::models::llama
