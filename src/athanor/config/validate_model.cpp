#include <algorithm>

#include "athanor/base/human.h"
#include "athanor/config/recompute.h"
#include "athanor/config/refuse.h"
#include "athanor/config/validate.h"
#include "athanor/config/validate_parts.h"
#include "athanor/masks/pattern.h"

namespace athanor::config {
namespace {

void check_experts(const Config& config) {
  const ModelConfig& m = config.model;
  if (!m.has_experts()) {
    require(m.num_experts == 0, config, "model.num_experts",
            "got {}, expected none: a {} has no experts, mixtral and moe have", m.num_experts, m.model_type);
    return;
  }
  if (const std::string unlike = unlike_mixtral(m); m.model_type == "mixtral" && !unlike.empty())
    refuse(config, "model.model_type",
           "a mixture of experts with other settings is model.model_type = \"moe\"",
           "got mixtral, expected moe: {} of a Mixtral", unlike);
  require(m.num_experts_per_tok <= m.num_experts, config, "model.num_experts_per_tok",
          "got {}, expected at most model.num_experts = {}", m.num_experts_per_tok, m.num_experts);
  require(m.first_k_dense_replace < m.num_hidden_layers, config, "model.first_k_dense_replace",
          "got {}, expected fewer than model.num_hidden_layers = {}", m.first_k_dense_replace,
          m.num_hidden_layers);
  require(!m.bias, config, "model.bias", "got true, expected false: experts have no biases");
}

void check_rotations(const Config& config) {
  const ModelConfig& m = config.model;
  if (m.rope_scaling == "none") return;
  require(m.rope_factor > 1.0, config, "model.rope_factor",
          "got {}, expected above 1 beside model.rope_scaling = \"{}\"", m.rope_factor, m.rope_scaling);
  const bool has_length = m.rope_scaling == "llama3" || m.rope_scaling == "yarn";
  require(!has_length || m.original_context() > 0, config, "model.rope_factor",
          "got {}, expected at most model.max_position_embeddings = {}", m.rope_factor,
          m.max_position_embeddings);
  require(m.rope_scaling != "llama3" || m.rope_low_freq_factor < m.rope_high_freq_factor, config,
          "model.rope_high_freq_factor", "got {}, expected above model.rope_low_freq_factor = {}",
          m.rope_high_freq_factor, m.rope_low_freq_factor);
  require(m.rope_scaling != "yarn" || m.rope_beta_slow < m.rope_beta_fast, config, "model.rope_beta_fast",
          "got {}, expected above model.rope_beta_slow = {}", m.rope_beta_fast, m.rope_beta_slow);
  // Its ramp is found by logarithms to the base.
  require(m.rope_scaling != "yarn" || m.rope_theta > 1.0, config, "model.rope_theta",
          "got {}, expected above 1 beside model.rope_scaling = \"yarn\"", m.rope_theta);
}

// What is said of a pattern, of its key.
template <typename Body>
auto of_pattern(const Config& config, const Body& body) {
  try {
    return body();
  } catch (const ConfigError& error) {
    refuse(config, "model.attention_pattern", error.hint(), "{}", error.what());
  }
}

// Decoders predict the next token, so that none may see it.
void check_attention(const Config& config) {
  const ModelConfig& m = config.model;
  const char* key = "model.attention_pattern";
  const auto pattern = of_pattern(config, [&] { return AttentionPattern::parse(m.attention_pattern); });
  if (pattern.text() == (m.is_encoder() ? "full" : "causal")) return;
  require(config.train.device != "cuda", config, key,
          "got '{}' with train.device = \"cuda\", expected '{}': only the CPU's kernels have masks",
          printable(m.attention_pattern), m.is_encoder() ? "full" : "causal");
  require(m.is_encoder() || pattern.is_causal(), config, key,
          "got '{}', expected one in which no token sees a later one, since a {} predicts the next token: "
          "add 'causal'",
          printable(m.attention_pattern), m.model_type);
  require(!pattern.has_documents(), config, key,
          "got '{}', expected no documents: those of the data are kept apart by data.attend_across_documents "
          "= false",
          printable(m.attention_pattern));
  // It must fit the longest context of the model; sequences may be shorter (doubtful.h tells).
  const int64_t length = std::max(config.data.seq_len, m.max_position_embeddings);
  const int64_t heads = m.num_attention_heads;
  of_pattern(config,
             [&] { pattern.check_fits({.length = length, .layers = m.num_hidden_layers, .heads = heads}); });
  const int64_t group = heads / m.num_key_value_heads;
  for (int64_t layer = 0; layer < m.num_hidden_layers && group > 1; ++layer) {
    // Which heads have one rule does not depend on the length; what `random` draws takes time by its square.
    const std::vector<int32_t> rules =
        pattern.rules(std::min<int64_t>(length, 1024), layer, 0, heads).rule_of_head;
    for (int64_t head = 0; head < heads; ++head)
      require(rules[static_cast<size_t>(head)] == rules[static_cast<size_t>(head / group * group)], config,
              key,
              "got other pairs for head {} than for head {} in layer {}, expected the same: they share a "
              "head of keys",
              head, head / group * group, layer);
  }
}

// What some families have and others not.
void check_family(const Config& config) {
  const ModelConfig& m = config.model;
  const bool is_bert = m.is_encoder();
  const std::string act = is_bert ? "gelu" : m.has_rope() ? "silu" : "gelu_new";
  require(m.hidden_act.empty() || m.hidden_act == act || (is_bert && m.hidden_act == "gelu_new"), config,
          "model.hidden_act", "got '{}', expected {}{}: that of a {}", printable(m.hidden_act), act,
          is_bert ? " or gelu_new" : "", m.model_type);
  if (!m.has_rope())
    require(m.num_key_value_heads == m.num_attention_heads, config, "model.num_key_value_heads",
            "got {}, expected model.num_attention_heads = {}: a {} has no grouped-query attention",
            m.num_key_value_heads, m.num_attention_heads, m.model_type);
  else
    require(m.head_dim % 2 == 0, config, "model.head_dim",
            "got {}, expected an even number: rotary embedding rotates pairs of elements", m.head_dim);
  if (is_bert) return;
  require(m.type_vocab_size == 0, config, "model.type_vocab_size",
          "got {}, expected 0: a {} has no token types, a bert has", m.type_vocab_size, m.model_type);
  require(m.position_offset == 0, config, "model.position_offset",
          "got {}, expected 0: a {} has no such rows, a bert may", m.position_offset, m.model_type);
}

}  // namespace

std::string unlike_mixtral(const ModelConfig& m) {
  const auto unlike = [](const char* key, const auto& got, const auto& expected) {
    return got == expected ? "" : fmt::format("model.{}: got {}, expected {}", key, got, expected);
  };
  for (const std::string& message :
       {unlike("scoring_func", m.scoring_func, "softmax"), unlike("norm_topk_prob", m.norm_topk_prob, true),
        unlike("routed_scaling_factor", m.routed_scaling_factor, 1.0),
        unlike("router_bias_update_rate", m.router_bias_update_rate, 0.0),
        unlike("n_shared_experts", m.n_shared_experts, 0),
        unlike("first_k_dense_replace", m.first_k_dense_replace, 0)})
    if (!message.empty()) return message;
  return "";
}

void check_model(const Config& config) {
  const ModelConfig& m = config.model;
  const bool known = m.num_hidden_layers > 0 && m.hidden_size > 0 && m.num_attention_heads > 0 &&
                     m.num_key_value_heads > 0 && m.head_dim > 0;
  if (!known) {
    refuse(config, "model.head_dim", "",
           "got hidden_size {} and {} heads, expected at least one element per head", m.hidden_size,
           m.num_attention_heads);
  }
  if (config.origins.contains("model.head_dim") &&
      config.origins.find("model.head_dim")->second.kind == Origin::Kind::derived)
    require(m.hidden_size % m.num_attention_heads == 0, config, "model.hidden_size",
            "got {}, expected a multiple of model.num_attention_heads = {} (or an explicit model.head_dim)",
            m.hidden_size, m.num_attention_heads);
  require(m.num_attention_heads % m.num_key_value_heads == 0, config, "model.num_key_value_heads",
          "got {}, expected a divisor of model.num_attention_heads = {}: each key head serves the same "
          "number of query heads",
          m.num_key_value_heads, m.num_attention_heads);
  require(m.num_attention_heads * m.head_dim <= int64_t{1} << 24, config, "model.head_dim",
          "got {} heads of {}, expected at most {} elements of attention", m.num_attention_heads, m.head_dim,
          int64_t{1} << 24);
  check_family(config);
  check_experts(config);
  check_rotations(config);
  check_attention(config);
  if (config.data.seq_len > m.max_position_embeddings)
    refuse(config, "data.seq_len", "shorten data.seq_len or raise model.max_position_embeddings",
           "got {}, expected at most model.max_position_embeddings = {}", config.data.seq_len,
           m.max_position_embeddings);
}

void check_recompute(const Config& config) {
  int64_t blocks = 0;
  for (const RecomputePart& part : parse_recompute(config.parallel.recompute).value_or(RecomputePlan{})) {
    require(part.group <= config.model.num_hidden_layers, config, "parallel.recompute",
            "got groups of {} blocks, expected at most model.num_hidden_layers = {}", part.group,
            config.model.num_hidden_layers);
    blocks += part.blocks;
  }
  require(blocks <= config.model.num_hidden_layers, config, "parallel.recompute",
          "got policies for {} blocks ('{}'), expected at most model.num_hidden_layers = {}", blocks,
          config.parallel.recompute, config.model.num_hidden_layers);
}

}  // namespace athanor::config
