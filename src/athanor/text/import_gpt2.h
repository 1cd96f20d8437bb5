// Turns the older pair of files of a byte-level BPE, vocab.json and merges.txt (GPT-2, RoBERTa, Qwen), into
// one tokenizer.json.
//
//   std::string json = import_gpt2(env, "vocab.json", "merges.txt", "gpt2");
//
// Tokens such as <|endoftext|>, which no merge makes, become special tokens; so do those that added_tokens.json or
// tokenizer_config.json beside vocab.json has and vocab.json has not. Errors name the file and the
// token or line. Thread rule: any thread.
#pragma once

#include <string>

#include "athanor/base/file.h"

namespace athanor {

// `pattern` is one of tokenizer_patterns(): the files do not say how text was cut into words.
std::string import_gpt2(Env& env, const std::string& vocab_path, const std::string& merges_path,
                        const std::string& pattern);

}  // namespace athanor
