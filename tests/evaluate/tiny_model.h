// A model that is scored in no time: one layer, 23 words, sequences of at most 12 tokens.
#pragma once

#include <memory>

#include "athanor/config/presets.h"
#include "athanor/models/model.h"
#include "support/engine.h"

namespace athanor {

constexpr int64_t kTinyWords = 23, kTinyTokens = 12;

inline std::unique_ptr<Model> make_tiny_model(Engine& engine) {
  ModelConfig config;
  config.family = "llama";
  config.layers = 1;
  config.width = 16;
  config.heads = 2;
  config.vocab_size = kTinyWords;
  config.max_seq_len = kTinyTokens;
  config.init_std = 0.5;
  auto model = make_model(complete_model(config, kTinyWords, kTinyTokens));
  model->allocate(engine.arena, Dtype::f32, false);
  model->initialize(5);
  return model;
}

}  // namespace athanor
