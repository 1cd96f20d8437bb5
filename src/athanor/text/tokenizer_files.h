// The files of a tokenizer's folder, byte for byte and by name: tokenizer.json and the files that Hugging Face puts
// beside it. They stay together through an import, a checkpoint, a training run and an export.
//
//   TokenizerFiles files = read_tokenizer_files(env, "llama-3");
//   auto tokenizer = Tokenizer::load(env, "llama-3/tokenizer.json");   // reads the same files
//
// Of config.json only the ids of special tokens are taken, as special_token_ids.json, because a checkpoint describes
// its model itself. Thread rule: any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"

namespace athanor::text {

using TokenizerFiles = std::map<std::string, std::string>;  // name: text

constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kTokenIdsFile = "special_token_ids.json";

// The names that may stand in TokenizerFiles.
const std::vector<std::string>& tokenizer_file_names();

// The tokenizer files that a folder has.
TokenizerFiles read_tokenizer_files(Env& env, const std::string& folder);

// {"bos_token_id": ..., "eos_token_id": ..., "pad_token_id": ...} of a model's config.json, unchanged; empty if the
// file has none of the keys or is not a model's.
std::string token_ids_of_config(std::string_view config_json);

}  // namespace athanor::text

namespace athanor {
using text::kTokenIdsFile;
using text::kTokenizerFile;
using text::read_tokenizer_files;
using text::token_ids_of_config;
using text::tokenizer_file_names;
using text::TokenizerFiles;
}  // namespace athanor
