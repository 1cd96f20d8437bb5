// A config of four layers and eight micro-batches, for questions about ranks.
#pragma once

#include <functional>
#include <string>

#include "athanor/config/config.h"
#include "athanor/config/presets.h"

namespace athanor::tests {

// `family`: llama, gpt2 or moe (with four experts).
inline Config asked(const std::function<void(ParallelConfig&)>& set, const std::string& family = "llama") {
  Config config;
  config.model.model_type = family;
  config.model.num_hidden_layers = 4;
  config.model.hidden_size = 24;
  config.model.num_attention_heads = 4;
  config.model.num_key_value_heads = family == "gpt2" ? 4 : 2;
  config.model.tie_word_embeddings = family == "gpt2";
  config.model.max_position_embeddings = 16;
  if (family == "moe") {
    config.model.num_experts = 4;
    config.model.num_experts_per_tok = 2;
    config.model.moe_intermediate_size = 20;
  }
  config.model = complete_model(config.model, 41, 12);
  config.data.seq_len = 12;
  config.train.global_batch_size = 16;
  config.train.micro_batch_size = 2;
  set(config.parallel);
  return config;
}

}  // namespace athanor::tests
