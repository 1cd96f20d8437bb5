// Checks of a whole Config: limits of every number, known names, and what must fit together.
//
// parse_config calls validate(), so that a Config that was read is a valid one; whoever builds a Config by
// hand calls it too. A command that reads data also calls validate_data().
//
// Errors: the first thing found, as a ConfigError "first.toml:12: model.hidden_size: got 100, expected ...".
// Thread rule: pure functions.
#pragma once

#include <string>

#include "athanor/config/config.h"

namespace athanor::config {

// Limits of single values and known names; what resolve_model() relies on.
void validate_limits(const Config& config);

// All of it, for a resolved model (vocab_size may still be zero).
void validate(const Config& config);

// Of a model with experts: the first key that Mixtral has otherwise, as "model.scoring_func: got sigmoid, expected
// softmax"; empty where it is a Mixtral.
std::string unlike_mixtral(const ModelConfig& model);

// At least one channel is named, in every phase. Whether a tokenizer is needed depends on what lies at its path
// (data/dataset.h).
void validate_data(const Config& config);

}  // namespace athanor::config
