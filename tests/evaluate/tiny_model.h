// A model that is scored in no time: one layer, 23 words, sequences of at most 12 tokens.
#pragma once

#include <memory>

#include "athanor/config/presets.h"
#include "athanor/models/model.h"
#include "support/engine.h"

namespace athanor::tests {

constexpr int64_t kTinyWords = 23, kTinyTokens = 12;

inline std::unique_ptr<Model> make_tiny_model(Engine& engine) {
  ModelConfig config;
  config.model_type = "llama";
  config.num_hidden_layers = 1;
  config.hidden_size = 16;
  config.num_attention_heads = 2;
  config.vocab_size = kTinyWords;
  config.max_position_embeddings = kTinyTokens;
  config.initializer_range = 0.5;
  auto model = make_model(complete_model(config, kTinyWords, kTinyTokens));
  model->allocate(engine.arena, Dtype::f32, false);
  model->initialize(5);
  return model;
}

}  // namespace athanor::tests
