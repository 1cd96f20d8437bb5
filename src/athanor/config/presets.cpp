#include "athanor/config/presets.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/config/fields.h"

namespace athanor::config {
namespace {

ModelConfig llama(int64_t layers, int64_t width, int64_t heads, int64_t kv_heads, int64_t ffn_width,
                  int64_t vocab_size, int64_t max_seq_len) {
  ModelConfig model;
  model.model_type = "llama", model.hidden_act = "silu";
  model.num_hidden_layers = layers, model.hidden_size = width, model.num_attention_heads = heads,
  model.num_key_value_heads = kv_heads;
  model.intermediate_size = ffn_width, model.vocab_size = vocab_size,
  model.max_position_embeddings = max_seq_len;
  return model;
}

ModelConfig llama3(ModelConfig model, bool tied) {
  model.rope_theta = 500000.0;
  model.tie_word_embeddings = tied;
  return model;
}

ModelConfig gpt2(int64_t layers, int64_t width, int64_t heads, int64_t vocab_size, int64_t max_seq_len) {
  ModelConfig model;
  model.model_type = "gpt2", model.hidden_act = "gelu_new";
  model.num_hidden_layers = layers, model.hidden_size = width, model.num_attention_heads = heads;
  model.vocab_size = vocab_size, model.max_position_embeddings = max_seq_len;
  model.tie_word_embeddings = true, model.bias = true;
  return model;
}

ModelConfig bert(int64_t layers, int64_t width, int64_t heads, int64_t vocab_size, int64_t max_seq_len) {
  ModelConfig model;
  model.model_type = "bert", model.hidden_act = "gelu", model.attention_pattern = "full";
  model.num_hidden_layers = layers, model.hidden_size = width, model.num_attention_heads = heads;
  model.vocab_size = vocab_size, model.max_position_embeddings = max_seq_len;
  model.tie_word_embeddings = true, model.bias = true;
  model.type_vocab_size = 2, model.dropout = 0.1, model.rms_norm_eps = 1e-12;
  return model;
}

ModelConfig roberta(ModelConfig model) {
  model.type_vocab_size = 1, model.position_offset = 2, model.rms_norm_eps = 1e-5;
  return model;
}

ModelConfig bigbird(ModelConfig model) {
  model.hidden_act = "gelu_new";
  model.attention_pattern = "global:64,64 + block_band:64,1 + random:3";
  return model;
}

ModelConfig mistral(ModelConfig model, double rope_theta, const char* pattern) {
  model.rope_theta = rope_theta, model.attention_pattern = pattern;
  return model;
}

ModelConfig tied(ModelConfig model, double rope_theta) {
  model.rope_theta = rope_theta, model.tie_word_embeddings = true;
  return model;
}

// Rotations stretched to 131,072 positions as in Llama 3.1 and 3.2.
ModelConfig llama31(ModelConfig model, bool tied, double factor) {
  model = llama3(model, tied);
  model.rope_scaling = "llama3", model.rope_factor = factor, model.rope_original_length = 8192;
  return model;
}

ModelConfig moe(ModelConfig model, int64_t experts, int64_t experts_per_token, int64_t expert_width) {
  model.model_type = "moe";
  model.num_experts = experts, model.num_experts_per_tok = experts_per_token,
  model.moe_intermediate_size = expert_width;
  return model;
}

ModelConfig mixtral(ModelConfig model, double aux_loss) {
  model.model_type = "mixtral";
  model.rope_theta = 1e6;
  model.router_aux_loss_coef = aux_loss;
  return model;
}

ModelConfig deepseek_moe(ModelConfig model, int64_t shared_experts, int64_t dense_layers) {
  model.n_shared_experts = shared_experts, model.first_k_dense_replace = dense_layers;
  model.norm_topk_prob = false;
  model.router_aux_loss_coef = 0.001;
  return model;
}

ModelConfig deepseek_v3(ModelConfig model, int64_t dense_layers, double scale, double bias_rate) {
  model.n_shared_experts = 1, model.first_k_dense_replace = dense_layers;
  model.scoring_func = "sigmoid";
  model.routed_scaling_factor = scale;
  model.router_bias_update_rate = bias_rate;
  return model;
}

struct Preset {
  const char* name;
  ModelConfig model;
};

// Zero num_key_value_heads: as many as num_attention_heads, also where the user overrides those. Zero vocab_size: the
// tokenizer's.
// deepseek-v3-like has plain multi-head attention in place of the latent one, one group of experts, and no
// multi-token prediction. The Llama 3 presets have the context of pre-training (8192), before it was stretched by scaling the
// rotations.
const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"gpt2-tiny", gpt2(4, 128, 4, 0, 256)},
      {"gpt2-124m", gpt2(12, 768, 12, 50257, 1024)},
      {"gpt2-350m", gpt2(24, 1024, 16, 50257, 1024)},
      {"gpt2-774m", gpt2(36, 1280, 20, 50257, 1024)},
      {"gpt2-1.5b", gpt2(48, 1600, 25, 50257, 1024)},
      {"llama-tiny", llama(8, 256, 4, 2, 704, 0, 1024)},
      {"llama-125m", llama(12, 768, 12, 0, 2048, 32000, 2048)},
      {"tinyllama-1.1b", llama(22, 2048, 32, 4, 5632, 32000, 2048)},
      {"llama-1b", llama3(llama(16, 2048, 32, 8, 8192, 128256, 8192), true)},
      {"llama-2-7b", llama(32, 4096, 32, 0, 11008, 32000, 4096)},
      {"llama-2-13b", llama(40, 5120, 40, 0, 13824, 32000, 4096)},
      {"llama-2-70b", llama(80, 8192, 64, 8, 28672, 32000, 4096)},
      {"llama-3-8b", llama3(llama(32, 4096, 32, 8, 14336, 128256, 8192), false)},
      {"moe-tiny", mixtral(moe(llama(4, 256, 4, 2, 704, 0, 1024), 8, 2, 352), 0.01)},
      {"moe-tiny-bias", deepseek_v3(moe(llama(4, 256, 4, 2, 704, 0, 1024), 8, 2, 352), 1, 1.0, 0.01)},
      {"mixtral-8x7b", mixtral(moe(llama(32, 4096, 32, 8, 14336, 32000, 32768), 8, 2, 14336), 0.02)},
      {"deepseek-moe-16b", deepseek_moe(moe(llama(28, 2048, 16, 0, 10944, 102400, 4096), 64, 6, 1408), 2, 1)},
      {"deepseek-v3-like",
       deepseek_v3(moe(llama(61, 7168, 128, 0, 18432, 129280, 4096), 256, 8, 2048), 3, 2.5, 0.001)},
      {"llama-3-70b", llama3(llama(80, 8192, 64, 8, 28672, 128256, 8192), false)},
      {"llama-3.1-8b", llama31(llama(32, 4096, 32, 8, 14336, 128256, 131072), false, 8.0)},
      {"llama-3.1-70b", llama31(llama(80, 8192, 64, 8, 28672, 128256, 131072), false, 8.0)},
      {"llama-3.1-405b", llama31(llama(126, 16384, 128, 8, 53248, 128256, 131072), false, 8.0)},
      {"llama-3.2-1b", llama31(llama(16, 2048, 32, 8, 8192, 128256, 131072), true, 32.0)},
      {"llama-3.2-3b", llama31(llama(28, 3072, 24, 8, 8192, 128256, 131072), true, 32.0)},
      {"mistral-7b-v0.1", mistral(llama(32, 4096, 32, 8, 14336, 32000, 32768), 1e4, "causal + window:4096")},
      {"mistral-7b-v0.3", mistral(llama(32, 4096, 32, 8, 14336, 32768, 32768), 1e6, "causal")},
      {"mixtral-8x22b", mixtral(moe(llama(56, 6144, 48, 8, 16384, 32000, 65536), 8, 2, 16384), 0.001)},
      {"mixtral-8x22b-v0.3", mixtral(moe(llama(56, 6144, 48, 8, 16384, 32768, 65536), 8, 2, 16384), 0.001)},
      {"smollm2-135m", tied(llama(30, 576, 9, 3, 1536, 49152, 8192), 1e5)},
      {"smollm2-360m", tied(llama(32, 960, 15, 5, 2560, 49152, 8192), 1e5)},
      {"bert-tiny", bert(2, 128, 2, 30522, 512)},
      {"bert-mini", bert(4, 256, 4, 30522, 512)},
      {"bert-small", bert(4, 512, 8, 30522, 512)},
      {"bert-medium", bert(8, 512, 8, 30522, 512)},
      {"bert-base-uncased", bert(12, 768, 12, 30522, 512)},
      {"bert-base-cased", bert(12, 768, 12, 28996, 512)},
      {"bert-base-chinese", bert(12, 768, 12, 21128, 512)},
      {"bert-base-multilingual-cased", bert(12, 768, 12, 119547, 512)},
      {"bert-large-uncased", bert(24, 1024, 16, 30522, 512)},
      {"bert-large-cased", bert(24, 1024, 16, 28996, 512)},
      {"roberta-base", roberta(bert(12, 768, 12, 50265, 512))},
      {"roberta-large", roberta(bert(24, 1024, 16, 50265, 512))},
      {"bigbird-roberta-base", bigbird(bert(12, 768, 12, 50358, 4096))},
      {"bigbird-roberta-large", bigbird(bert(24, 1024, 16, 50358, 4096))},
  };
  return all;
}

// What a config without a preset gets: a model that trains on a laptop.
ModelConfig smallest_model(const std::string& model_type) {
  if (model_type == "gpt2") return gpt2(4, 128, 4, 0, 0);
  if (model_type == "bert") return bert(2, 128, 2, 0, 0);
  ModelConfig experts = mixtral(moe(llama(4, 256, 4, 0, 0, 0, 0), 8, 2, 0), 0.01);
  experts.model_type = model_type;
  if (experts.has_experts()) return experts;
  return llama(8, 256, 4, 0, 0, 0, 0);
}

int64_t round_up_64(int64_t value) {
  return (value + 63) / 64 * 64;
}

std::string where(const Config& config, const std::string& key) {
  const auto origin = config.origins.find(key);
  return origin == config.origins.end() ? "" : origin->second.text + ": ";
}

const Preset& find_preset(const std::string& name, const std::string& where) {
  for (const auto& preset : presets())
    if (preset.name == name) return preset;
  const std::string nearest = nearest_name(name, preset_names());
  throw ConfigError(fmt::format("{}model.preset: got '{}', expected a known preset{}", where, printable(name),
                                nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest)),
                    fmt::format("the presets are {}", fmt::join(preset_names(), ", ")));
}

bool is_zero(const Slot& slot) {
  auto* const* integer = std::get_if<int64_t*>(&slot);
  return integer != nullptr && **integer == 0;
}

template <typename Value>
bool assign(const Slot& to, const Slot& from) {
  auto* const* target = std::get_if<Value*>(&to);
  if (target == nullptr) return false;
  **target = *std::get<Value*>(from);
  return true;
}

void copy_value(const Slot& to, const Slot& from) {
  assign<std::string>(to, from) || assign<int64_t>(to, from) || assign<double>(to, from) ||
      assign<bool>(to, from);
}

std::string derivation(std::string_view name, const ModelConfig& model, int64_t tokenizer_vocab) {
  if (name == "num_key_value_heads") return "num_attention_heads";
  if (name == "head_dim") return "hidden_size / num_attention_heads";
  if (name == "intermediate_size")
    return model.has_rope() ? "8/3 hidden_size, up to a multiple of 64" : "4 hidden_size";
  if (name == "moe_intermediate_size") return "intermediate_size";
  if (name == "max_position_embeddings") return "data.seq_len";
  return fmt::format("the tokenizer's {}, up to a multiple of 64", tokenizer_vocab);
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& preset : presets()) names.emplace_back(preset.name);
  return names;
}

ModelConfig preset_model(const std::string& name) {
  ModelConfig model = find_preset(name, "").model;
  model.preset = name;
  return complete_model(model, 8192, model.max_position_embeddings);
}

ModelConfig preset_fields(const Config& config) {
  return find_preset(config.model.preset, where(config, "model.preset")).model;
}

ModelConfig complete_model(ModelConfig model, int64_t tokenizer_vocab, int64_t seq_len) {
  const ModelConfig smallest = smallest_model(model.model_type);
  const auto fill = [](int64_t& field, int64_t value) {
    if (field == 0) field = value;
  };
  if (model.hidden_act.empty()) model.hidden_act = smallest.hidden_act;
  fill(model.num_hidden_layers, smallest.num_hidden_layers);
  fill(model.hidden_size, smallest.hidden_size);
  fill(model.num_attention_heads, smallest.num_attention_heads);
  fill(model.num_key_value_heads, model.num_attention_heads);
  fill(model.head_dim, model.hidden_size / model.num_attention_heads);
  fill(model.intermediate_size,
       model.has_rope() ? round_up_64((8 * model.hidden_size + 2) / 3) : 4 * model.hidden_size);
  if (model.has_experts()) {
    fill(model.num_experts, smallest.num_experts);
    fill(model.num_experts_per_tok, smallest.num_experts_per_tok);
    fill(model.moe_intermediate_size, model.intermediate_size);
  }
  fill(model.max_position_embeddings, seq_len);
  fill(model.vocab_size, round_up_64(tokenizer_vocab));
  return model;
}

void resolve_model(Config& config, int64_t tokenizer_vocab) {
  ModelConfig& model = config.model;
  const bool has_preset = !model.preset.empty();
  const std::string preset = model.preset;
  const auto set_by_user = [&](const std::string& key) {
    const auto origin = config.origins.find(key);
    return origin != config.origins.end() && origin->second.by_user();
  };
  Config base;
  base.model = has_preset ? find_preset(preset, where(config, "model.preset")).model
                          : smallest_model(model.model_type);
  const bool generalizes = base.model.model_type == "mixtral" && model.model_type == "moe";
  if (has_preset && set_by_user("model.model_type") && model.model_type != base.model.model_type &&
      !generalizes)
    throw ConfigError(fmt::format("{}model.model_type: got '{}', expected '{}', that of preset '{}'",
                                  where(config, "model.model_type"), printable(model.model_type),
                                  base.model.model_type, preset));
  for (const auto& field : shape_fields()) {
    const std::string key = field.key();
    const Slot target = field.slot(config), source = field.slot(base);
    const auto origin = config.origins.find(key);
    const bool settled = origin != config.origins.end() && (origin->second.kind == Origin::Kind::derived ||
                                                            origin->second.kind == Origin::Kind::source);
    if ((set_by_user(key) || settled) && (origin->second.kind == Origin::Kind::source || !is_zero(target)))
      continue;
    if (is_zero(target) && is_zero(source)) continue;
    copy_value(target, source);
    config.origins.erase(key);
    if (has_preset) config.origins[key] = {Origin::Kind::preset, "preset " + preset};
  }
  const ModelConfig before = model;
  model = complete_model(model, tokenizer_vocab, config.data.seq_len);
  Config old;
  old.model = before;
  for (const auto& field : shape_fields())
    if (is_zero(field.slot(old)) && !is_zero(field.slot(config)))
      config.origins[field.key()] = {Origin::Kind::derived,
                                     "derived: " + derivation(field.name, model, tokenizer_vocab)};
  if (tokenizer_vocab > 0 && model.vocab_size < tokenizer_vocab) {
    const Origin& origin = config.origins["model.vocab_size"];
    throw ConfigError(fmt::format("{}: model.vocab_size: got {}, expected at least the tokenizer's {}",
                                  origin.text, model.vocab_size, tokenizer_vocab),
                      origin.kind == Origin::Kind::model_config
                          ? "use that model's own tokenizer, or change vocab_size in the file"
                          : "leave model.vocab_size out to take the tokenizer's");
  }
}

int64_t num_params(const ModelConfig& m) {
  const int64_t queries = m.num_attention_heads * m.head_dim, keys = m.num_key_value_heads * m.head_dim;
  const int64_t bias = m.bias ? 1 : 0;
  const int64_t attention =
      m.hidden_size * (2 * queries + 2 * keys) + bias * (queries + 2 * keys + m.hidden_size);
  const int64_t embeddings = m.vocab_size * m.hidden_size * (m.tie_word_embeddings ? 1 : 2);
  if (!m.has_rope()) {
    const int64_t mlp =
        2 * m.hidden_size * m.intermediate_size + bias * (m.intermediate_size + m.hidden_size);
    const int64_t norm = m.hidden_size * (1 + bias);
    if (m.is_encoder())
      return embeddings +
             (m.max_position_embeddings + m.position_offset + m.type_vocab_size) * m.hidden_size +
             m.num_hidden_layers * (attention + mlp + 2 * norm) + 2 * norm +
             m.hidden_size * (m.hidden_size + bias) + m.vocab_size;
    return embeddings + m.max_position_embeddings * m.hidden_size +
           m.num_hidden_layers * (attention + mlp + 2 * norm) + norm;
  }
  const int64_t mlp =
      3 * m.hidden_size * m.intermediate_size + bias * (2 * m.intermediate_size + m.hidden_size);
  const int64_t moe_layers = m.has_experts() ? m.num_hidden_layers - m.first_k_dense_replace : 0;
  const int64_t moe_mlp = m.num_experts * m.hidden_size +
                          3 * m.hidden_size * m.moe_intermediate_size * (m.num_experts + m.n_shared_experts);
  return embeddings + m.num_hidden_layers * (attention + 2 * m.hidden_size) +
         (m.num_hidden_layers - moe_layers) * mlp + moe_layers * moe_mlp + m.hidden_size;
}

}  // namespace athanor::config
