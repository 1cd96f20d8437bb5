#include "athanor/config/recompute.h"
#include "athanor/config/refuse.h"
#include "athanor/config/validate_parts.h"

namespace athanor {
namespace {

void check_experts(const Config& config) {
  const ModelConfig& m = config.model;
  if (m.family != "moe") {
    require(m.experts == 0, config, "model.experts",
            "got {}, expected none: a {} has no experts, family moe has", m.experts, m.family);
    return;
  }
  require(m.experts_per_token <= m.experts, config, "model.experts_per_token",
          "got {}, expected at most model.experts = {}", m.experts_per_token, m.experts);
  require(m.dense_layers < m.layers, config, "model.dense_layers",
          "got {}, expected fewer than model.layers = {}", m.dense_layers, m.layers);
  require(!m.bias, config, "model.bias", "got true, expected false: experts have no biases");
}

}  // namespace

void check_model(const Config& config) {
  const ModelConfig& m = config.model;
  const bool known = m.layers > 0 && m.width > 0 && m.heads > 0 && m.kv_heads > 0 && m.head_dim > 0;
  if (!known) {
    refuse(config, "model.head_dim", "", "got width {} and {} heads, expected at least one channel per head",
           m.width, m.heads);
  }
  if (config.origins.contains("model.head_dim") &&
      config.origins.find("model.head_dim")->second.kind == Origin::Kind::derived)
    require(m.width % m.heads == 0, config, "model.width",
            "got {}, expected a multiple of model.heads = {} (or an explicit model.head_dim)", m.width,
            m.heads);
  require(m.heads % m.kv_heads == 0, config, "model.kv_heads",
          "got {}, expected a divisor of model.heads = {}: query heads share key heads evenly", m.kv_heads,
          m.heads);
  require(m.heads * m.head_dim <= int64_t{1} << 24, config, "model.head_dim",
          "got {} heads of {}, expected at most {} channels of attention", m.heads, m.head_dim,
          int64_t{1} << 24);
  if (m.family != "gpt2")
    require(m.head_dim % 2 == 0, config, "model.head_dim",
            "got {}, expected an even number: rotary embedding turns pairs of channels", m.head_dim);
  if (m.family == "gpt2")
    require(m.kv_heads == m.heads, config, "model.kv_heads",
            "got {}, expected model.heads = {}: gpt2 has no grouped-query attention", m.kv_heads, m.heads);
  check_experts(config);
  if (config.data.seq_len > m.max_seq_len)
    refuse(config, "data.seq_len", "shorten data.seq_len or raise model.max_seq_len",
           "got {}, expected at most model.max_seq_len = {}", config.data.seq_len, m.max_seq_len);
}

void check_recompute(const Config& config) {
  int64_t blocks = 0;
  for (const RecomputePart& part : parse_recompute(config.parallel.recompute).value_or(RecomputePlan{})) {
    require(part.group <= config.model.layers, config, "parallel.recompute",
            "got groups of {} blocks, expected at most model.layers = {}", part.group, config.model.layers);
    blocks += part.blocks;
  }
  require(blocks <= config.model.layers, config, "parallel.recompute",
          "got policies for {} blocks ('{}'), expected at most model.layers = {}", blocks,
          config.parallel.recompute, config.model.layers);
}

}  // namespace athanor
