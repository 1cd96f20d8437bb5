// Settings that come with train.init_from, the architecture of its weights and their tokenizer, and with model.config.
//
//   const Config config = load_config(env, "finetune.toml", sets, config_sources(env));
//
// train.init_from names a run, a checkpoint or a Hugging Face folder. A config whose data.tokenizer differs from the
// source's (by the hash that token files carry) is refused, because the same ids would mean other text. A resumed run
// whose source is gone uses its own checkpoint instead.
//
// Errors: ConfigError naming the key; Error for a path that holds no weights. Thread rule: pure functions of the files.
#pragma once

#include "athanor/base/file.h"
#include "athanor/config/init_source.h"

namespace athanor::run {

ConfigSources config_sources(Env& env);

}  // namespace athanor::run
