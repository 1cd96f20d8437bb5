// Sliding windows as Hugging Face's config.json has them: `sliding_window` W lets a token see itself and the W - 1 before it,
// in all layers; null is none. Here that is model.attention_pattern = "causal + window:W" (masks/pattern.h).
//
//   read_window(config, /*without_key=*/4096, model);      // a Mistral that does not name it has one of 4096
//   const std::optional<int64_t> window = window_of(model);
//
// Errors: Error naming file and key, or the pattern that no config.json can say. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "athanor/models/hf_family.h"

namespace athanor::models {

void read_window(const HfConfig& config, std::optional<int64_t> without_key, ModelConfig& model);

// That of all layers and heads; none: the causal order alone.
std::optional<int64_t> window_of(const ModelConfig& model);

}  // namespace athanor::models
