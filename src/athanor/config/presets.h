// Named model sizes, and how the fields that a config leaves out are filled.
//
//   ModelConfig model = preset_model("gpt2-124m");          // complete: no field is zero
//   num_params(model);                                       // 124439808, the published count
//   resolve_model(config, tokenizer.vocab_size());           // as load_config did, now with the vocabulary
//
// Order, first that applies: the user's value (or that of model.config), the preset's, the family's, a derived one. Config::origins
// records which. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/config/config.h"

namespace athanor::config {

std::vector<std::string> preset_names();

// A preset with every field filled; the small ones, whose vocabulary is the tokenizer's, get one of 8192.
// ConfigError naming the nearest where the name is unknown.
ModelConfig preset_model(const std::string& name);

// What the preset of `config.model` itself says: zero where a field follows from others or from the data. ConfigError as
// above, with the key's origin.
ModelConfig preset_fields(const Config& config);

// Fills the zero fields that follow from others: num_key_value_heads, head_dim, intermediate_size,
// max_position_embeddings and vocab_size (stays zero while tokenizer_vocab is). Sizes that follow from
// nothing are model_type's smallest.
ModelConfig complete_model(ModelConfig model, int64_t tokenizer_vocab, int64_t seq_len);

// Resolves config.model in place; calling it again (once the tokenizer is known) only fills what is missing.
// ConfigError where the vocabulary is smaller than the tokenizer's or the family is not the preset's.
void resolve_model(Config& config, int64_t tokenizer_vocab = 0);

// Parameters of a complete model, tied ones counted once; what is no weight (a router's balancing bias) not.
int64_t num_params(const ModelConfig& model);

}  // namespace athanor::config
