#include "athanor/models/llama/hf.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "athanor/models/hf_rope.h"
#include "athanor/models/hf_windows.h"

namespace athanor::models::llama {
namespace {

using Json = nlohmann::ordered_json;

// Refuses sliding windows of a family that has none, and other kinds of layers, unless they have no effect.
void expect_full_attention(const HfConfig& config, const LlamaDefaults& defaults, const ModelConfig& model) {
  const bool used = config.boolean("use_sliding_window", true) && !defaults.has_windows;
  if (const int64_t window = config.integer("sliding_window", model.max_position_embeddings);
      used && window < model.max_position_embeddings)
    config.refuse("sliding_window",
                  fmt::format("got {}, expected none or max_position_embeddings = {} at least", window,
                              model.max_position_embeddings));
  config.integer("max_window_layers", 0);  // of the layers with a window
  const std::vector<std::string> kinds = config.texts("layer_types");
  for (const std::string& kind : kinds)
    if (kind != "full_attention")
      config.refuse("layer_types",
                    fmt::format("got '{}', expected full_attention everywhere", kind.substr(0, 60)));
  if (!kinds.empty() && static_cast<int64_t>(kinds.size()) != model.num_hidden_layers)
    config.refuse("layer_types", fmt::format("got {} kinds, expected num_hidden_layers = {}", kinds.size(),
                                             model.num_hidden_layers));
}

}  // namespace

ModelConfig read_llama_config(const HfConfig& config, const LlamaDefaults& defaults) {
  ModelConfig model;
  model.model_type = "llama";
  model.num_hidden_layers = config.integer("num_hidden_layers");
  model.hidden_size = config.integer("hidden_size");
  model.num_attention_heads = config.integer("num_attention_heads");
  // null says as many as heads, a missing key the family's own number.
  const bool family_kv_heads = defaults.kv_heads > 0 && !config.names("num_key_value_heads");
  model.num_key_value_heads =
      config.integer("num_key_value_heads", family_kv_heads ? defaults.kv_heads : model.num_attention_heads);
  model.head_dim = config.integer(
      "head_dim", model.num_attention_heads > 0 ? model.hidden_size / model.num_attention_heads : 0);
  model.intermediate_size = config.integer("intermediate_size");
  model.vocab_size = config.integer("vocab_size");
  model.max_position_embeddings = config.integer("max_position_embeddings", defaults.max_seq_len);
  model.rms_norm_eps = config.number("rms_norm_eps", defaults.norm_eps);
  model.initializer_range = config.number("initializer_range", 0.02);
  model.tie_word_embeddings = config.boolean("tie_word_embeddings", false);
  if (!config.has("head_dim") && model.num_attention_heads > 0 &&
      model.hidden_size % model.num_attention_heads != 0)
    config.refuse("hidden_size", fmt::format("got {}, expected a multiple of num_attention_heads = {}",
                                             model.hidden_size, model.num_attention_heads));
  read_rotations(config, {defaults.rope_base, model.head_dim}, model);
  model.hidden_act = "silu";
  if (const std::string act = config.text("hidden_act", "silu"); act != "silu")
    config.refuse("hidden_act", fmt::format("got '{}', expected silu", act));
  model.bias = config.boolean("attention_bias", false);
  if (config.boolean("mlp_bias", false) != model.bias)
    config.refuse("mlp_bias",
                  fmt::format("got {}, expected attention_bias = {}: biases are in all linear layers "
                              "or in none",
                              !model.bias, model.bias));
  config.expect_absent("quantization_config");
  if (defaults.has_windows) read_window(config, defaults.window, model);
  expect_full_attention(config, defaults, model);
  return model;
}

void write_llama_config(const ModelConfig& model, Json& config) {
  config["vocab_size"] = model.vocab_size;
  config["hidden_size"] = model.hidden_size;
  config["intermediate_size"] = model.intermediate_size;
  config["num_hidden_layers"] = model.num_hidden_layers;
  config["num_attention_heads"] = model.num_attention_heads;
  config["num_key_value_heads"] = model.num_key_value_heads;
  config["head_dim"] = model.head_dim;
  config["hidden_act"] = "silu";
  config["max_position_embeddings"] = model.max_position_embeddings;
  config["initializer_range"] = model.initializer_range;
  config["rms_norm_eps"] = model.rms_norm_eps;
  config["tie_word_embeddings"] = model.tie_word_embeddings;
  write_rotations(model, config);
  config["attention_bias"] = model.bias;
  config["mlp_bias"] = model.bias;
  config["attention_dropout"] = 0.0;
  config["pretraining_tp"] = 1;
}

std::vector<HfTensor> llama_tensors(
    const ModelConfig& model, const std::function<void(int64_t, std::vector<HfTensor>&)>& feed_forward) {
  std::vector<HfTensor> all = {{"model.embed_tokens.weight", {"embed.weight"}}};
  for (int64_t i = 0; i < model.num_hidden_layers; ++i) {
    const std::string there = fmt::format("model.layers.{}.", i), here = fmt::format("blocks.{}.", i);
    const auto linear = [&](const std::string& name, const std::string& ours) {
      all.push_back({there + name + ".weight", {here + ours + ".weight"}});
      if (model.bias) all.push_back({there + name + ".bias", {here + ours + ".bias"}});
    };
    all.push_back({there + "input_layernorm.weight", {here + "attn_norm.weight"}});
    for (const char* part : {"q", "k", "v", "o"})
      linear(fmt::format("self_attn.{}_proj", part), fmt::format("attn.{}", part));
    all.push_back({there + "post_attention_layernorm.weight", {here + "mlp_norm.weight"}});
    feed_forward(i, all);
  }
  all.push_back({"model.norm.weight", {"norm.weight"}});
  if (!model.tie_word_embeddings) all.push_back({"lm_head.weight", {"head.weight"}});
  return all;
}

namespace {

ModelConfig read_dense_config(const HfConfig& config) {
  config.expect_absent("num_local_experts");
  return read_llama_config(config, {});
}

std::vector<HfTensor> dense_tensors(const ModelConfig& model) {
  return llama_tensors(model, [&](int64_t layer, std::vector<HfTensor>& all) {
    for (const char* part : {"gate", "up", "down"})
      for (const char* kind : {"weight", "bias"})
        if (model.bias || kind == std::string_view("weight"))
          all.push_back({fmt::format("model.layers.{}.mlp.{}_proj.{}", layer, part, kind),
                         {fmt::format("blocks.{}.mlp.{}.{}", layer, part, kind)}});
  });
}

ModelConfig read_mistral_config(const HfConfig& config) {
  config.expect_absent("num_local_experts");
  ModelConfig model = read_llama_config(
      config, {.kv_heads = 8, .max_seq_len = 131072, .norm_eps = 1e-6, .has_windows = true, .window = 4096});
  if (model.bias) config.refuse("attention_bias", "got true, expected false: a Mistral has no biases");
  return model;
}

void write_mistral_config(const ModelConfig& model, Json& config) {
  check(!model.bias,
        "model.bias: got true, expected false: a model with a sliding window is a Mistral in Hugging "
        "Face's form, and that has no biases");
  write_llama_config(model, config);
  for (const char* key : {"attention_bias", "mlp_bias", "pretraining_tp"}) config.erase(key);
  config["sliding_window"] = window_of(model).value();
}

bool is_ignored_by_llama(std::string_view name, const ModelConfig& model) {
  return (model.tie_word_embeddings && name == "lm_head.weight") || name.ends_with("rotary_emb.inv_freq");
}

}  // namespace

const HfFamily& llama_hf() {
  static constexpr HfFamily family = {
      "llama",       "LlamaForCausalLM", "model.", read_dense_config, write_llama_config,
      dense_tensors, is_ignored_by_llama};
  return family;
}

const HfFamily& mistral_hf() {
  static constexpr HfFamily family = {"mistral",           "MistralForCausalLM", "model.",
                                      read_mistral_config, write_mistral_config, dense_tensors,
                                      is_ignored_by_llama};
  return family;
}

}  // namespace athanor::models::llama
