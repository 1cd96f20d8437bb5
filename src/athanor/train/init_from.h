// The settings that train.init_from brings along: the architecture of its weights and their tokenizer.
//
//   const Config config = load_config(env, "finetune.toml", sets, init_source(env));
//
// It is a run, a checkpoint or a Hugging Face folder. A config whose data.tokenizer is another one, by the hash that token
// files carry, is refused: the same ids would mean other text. A resumed run whose source is gone takes its own checkpoint.
//
// Errors: ConfigError naming the key; Error for a path that holds no weights. Thread rule: pure functions of the files.
#pragma once

#include "athanor/base/file.h"
#include "athanor/config/init_source.h"

namespace athanor {

OpenInitSource init_source(Env& env);

}  // namespace athanor
