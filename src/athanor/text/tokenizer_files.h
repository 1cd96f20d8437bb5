// The files of a folder that say how its tokenizer is used, byte for byte and by name: tokenizer.json and what
// Hugging Face puts beside it. They go together through an import, a checkpoint, a training run and an export.
//
//   TokenizerFiles files = read_tokenizer_files(env, "llama-3");
//   auto tokenizer = Tokenizer::load(env, "llama-3/tokenizer.json");   // reads the same ones
//   checkpoint.files.push_back(...);                                   // for each of tokenizer->files()
//
// Of config.json only the ids of tokens are taken, as special_token_ids.json: a checkpoint says by itself what its
// model is. Thread rule: any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"

namespace athanor {

using TokenizerFiles = std::map<std::string, std::string>;  // name: text

constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kTokenIdsFile = "special_token_ids.json";

// The names that may stand in TokenizerFiles.
const std::vector<std::string>& tokenizer_file_names();

// Those files of a folder that are there.
TokenizerFiles read_tokenizer_files(Env& env, const std::string& folder);

// {"bos_token_id": ..., "eos_token_id": ..., "pad_token_id": ...} of a model's config.json, as they stand there; empty
// where it has none of them or is the config.json of something else.
std::string token_ids_of_config(std::string_view config_json);

}  // namespace athanor
