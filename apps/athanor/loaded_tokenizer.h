// Tokenizers of commands: whatever command loads one, what the tokenizer warns of goes to standard error.
#pragma once

#include <memory>
#include <string>

#include "athanor/text/tokenizer.h"

namespace athanor::apps {

// A tokenizer.json, a SentencePiece .model, or a folder that holds a tokenizer.json.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path);
// For a tokenizer that was loaded elsewhere; null: nothing to say.
void say_warnings(const Tokenizer* tokenizer);

}  // namespace athanor::apps
