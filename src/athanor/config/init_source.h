// Trained weights that a config starts from (train.init_from), as far as they settle its settings: the architecture is
// theirs, and so is the tokenizer, so neither has to be said again.
//
//   take_source(config, {.model = checkpoint's, .what = "init_from runs/base", .tokenizer = "/.../tokenizer.json"});
//
// What the config says of the model must be what the weights say: a key that the user or its preset sets to another value
// is refused by name, with both values. Some keys may differ, because weights of the same shape and the same meaning are
// trained on with either value: take_source.cpp lists them with the reason of each.
//
// model.config names a Hugging Face config.json: the architecture is the file's, and what the config says otherwise is
// refused by name. Only keys that no such file has may be set beside it.
//
// config/ opens neither: who loads a config gives functions that do (run/init_from.h has those of the program).
// Thread rule: pure functions.
#pragma once

#include <functional>
#include <string>

#include "athanor/config/config.h"

namespace athanor::config {

struct InitSource {
  ModelConfig model = {};      // complete: every field filled
  std::string what = {};       // "init_from runs/base (step 300)", the origin of what is taken
  std::string tokenizer = {};  // the path of its tokenizer.json; empty: it has none
};

// Empty functions: what the config names is not opened.
struct ConfigSources {
  // Called with the config as it was written, paths made absolute, its model not filled in.
  std::function<InitSource(const Config&)> init_from = {};
  // Reads the file at a path, or in the folder there: the complete model and where it was.
  std::function<InitSource(const std::string&)> model_config = {};
};

// Both fill config.model. ConfigError naming the first key that contradicts.
void take_source(Config& config, const InitSource& source);      // also data.tokenizer where that is not set
void take_model_config(Config& config, const InitSource& file);  // and empties model.config

}  // namespace athanor::config
