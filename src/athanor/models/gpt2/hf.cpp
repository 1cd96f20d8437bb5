#include "athanor/models/gpt2/hf.h"

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"

namespace athanor::models::gpt2 {
namespace {

using Json = nlohmann::ordered_json;

ModelConfig read_gpt2_config(const HfConfig& config) {
  ModelConfig model;
  model.model_type = "gpt2";
  model.num_hidden_layers = config.integer("n_layer", 12);
  model.hidden_size = config.integer("n_embd", 768);
  model.num_attention_heads = model.num_key_value_heads = config.integer("n_head", 12);
  if (model.num_attention_heads == 0 || model.hidden_size % model.num_attention_heads != 0)
    config.refuse("n_embd", fmt::format("got {}, expected a multiple of n_head = {}", model.hidden_size,
                                        model.num_attention_heads));
  model.head_dim = model.hidden_size / model.num_attention_heads;
  if (model.hidden_size > INT64_MAX / 4) config.refuse("n_embd", "is too large");
  model.intermediate_size = config.integer("n_inner", 4 * model.hidden_size);
  model.vocab_size = config.integer("vocab_size", 50257);
  model.max_position_embeddings = config.integer("n_positions", 1024);
  model.rms_norm_eps = config.number("layer_norm_epsilon", 1e-5);
  model.initializer_range = config.number("initializer_range", 0.02);
  model.dropout = config.number("resid_pdrop", 0.1);
  model.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  model.bias = config.boolean("bias", true);
  model.hidden_act = "gelu_new";
  const std::string act = config.text("activation_function", "gelu_new");
  if (act != "gelu_new" && act != "gelu_pytorch_tanh")
    config.refuse("activation_function", fmt::format("got '{}', expected gelu_new", act));
  config.expect("scale_attn_weights", true);
  config.expect("scale_attn_by_inverse_layer_idx", false);
  config.expect("add_cross_attention", false);
  config.expect_absent("quantization_config");
  return model;
}

void write_gpt2_config(const ModelConfig& model, Json& config) {
  check(
      model.num_attention_heads * model.head_dim == model.hidden_size &&
          model.num_key_value_heads == model.num_attention_heads,
      "export: got gpt2 with {} heads of {} and width {}, expected heads * head_dim = width: the format has "
      "no head_dim",
      model.num_attention_heads, model.head_dim, model.hidden_size);
  config["vocab_size"] = model.vocab_size;
  config["n_positions"] = model.max_position_embeddings;
  config["n_ctx"] = model.max_position_embeddings;
  config["n_embd"] = model.hidden_size;
  config["n_layer"] = model.num_hidden_layers;
  config["n_head"] = model.num_attention_heads;
  config["n_inner"] =
      model.intermediate_size == 4 * model.hidden_size ? Json(nullptr) : Json(model.intermediate_size);
  config["activation_function"] = "gelu_new";
  config["resid_pdrop"] = model.dropout;
  config["embd_pdrop"] = model.dropout;
  config["attn_pdrop"] = 0.0;
  config["layer_norm_epsilon"] = model.rms_norm_eps;
  config["initializer_range"] = model.initializer_range;
  config["scale_attn_weights"] = true;
  config["scale_attn_by_inverse_layer_idx"] = false;
  config["reorder_and_upcast_attn"] = false;
  config["tie_word_embeddings"] = model.tie_word_embeddings;
  if (!model.bias) config["bias"] = false;
}

std::vector<HfTensor> gpt2_tensors(const ModelConfig& model) {
  std::vector<HfTensor> all = {{"transformer.wte.weight", {"embed.weight"}},
                               {"transformer.wpe.weight", {"positions.weight"}}};
  // The parameters whose names end in `.weight` or `.bias` behind each of `ours`, joined.
  const auto layer = [&](const std::string& name, const std::vector<std::string>& ours, bool transposed) {
    for (const char* kind : {".weight", ".bias"}) {
      if (kind == std::string_view(".bias") && !model.bias) continue;
      HfTensor tensor{name + kind, {}, transposed && kind == std::string_view(".weight")};
      for (const std::string& part : ours) tensor.parts.push_back(part + kind);
      all.push_back(std::move(tensor));
    }
  };
  for (int64_t i = 0; i < model.num_hidden_layers; ++i) {
    const std::string there = fmt::format("transformer.h.{}.", i), here = fmt::format("blocks.{}.", i);
    layer(there + "ln_1", {here + "attn_norm"}, false);
    layer(there + "attn.c_attn", {here + "attn.q", here + "attn.k", here + "attn.v"}, true);
    layer(there + "attn.c_proj", {here + "attn.o"}, true);
    layer(there + "ln_2", {here + "mlp_norm"}, false);
    layer(there + "mlp.c_fc", {here + "mlp.up"}, true);
    layer(there + "mlp.c_proj", {here + "mlp.down"}, true);
  }
  layer("transformer.ln_f", {"norm"}, false);
  if (!model.tie_word_embeddings) all.push_back({"lm_head.weight", {"head.weight"}});
  return all;
}

bool is_ignored_by_gpt2(std::string_view name, const ModelConfig& model) {
  return (model.tie_word_embeddings && name == "lm_head.weight") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias");
}

}  // namespace

const HfFamily& gpt2_hf() {
  static constexpr HfFamily family = {
      "gpt2",       "GPT2LMHeadModel", "transformer.", read_gpt2_config, write_gpt2_config,
      gpt2_tensors, is_ignored_by_gpt2};
  return family;
}

}  // namespace athanor::models::gpt2
