// Converts the older pair of files of a byte-level BPE, vocab.json and merges.txt (GPT-2, RoBERTa, Qwen), into one
// tokenizer.json.
//
//   std::string json = import_gpt2(env, "vocab.json", "merges.txt", "gpt2");
//
// Tokens that no merge makes, such as <|endoftext|>, become special tokens. So do tokens of added_tokens.json and
// tokenizer_config.json beside vocab.json that vocab.json lacks. Errors name the file and the token or line.
// Thread rule: any thread.
#pragma once

#include <string>

#include "athanor/base/file.h"

namespace athanor::text::formats {

// `pattern` is one of tokenizer_patterns(): the files do not say how text was split into words.
std::string import_gpt2(Env& env, const std::string& vocab_path, const std::string& merges_path,
                        const std::string& pattern);

}  // namespace athanor::text::formats

namespace athanor {
using text::formats::import_gpt2;
}  // namespace athanor
