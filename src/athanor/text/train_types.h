// The types that trainer.h offers: each turns counted words into a tokenizer.json. One file per type.
// Thread rule: pure functions.
#pragma once

#include <string>

#include "athanor/text/trainer.h"
#include "athanor/text/word_counts.h"
#include "athanor/text/word_scanner.h"

namespace athanor::text {

std::string train_byte_bpe(const WordCounts& words, const TokenizerTrainerOptions& options);
std::string train_char(const WordCounts& chars, const TokenizerTrainerOptions& options);

WordPattern pattern_named(const std::string& name);

constexpr int64_t kDefaultVocabSize = 30000;

}  // namespace athanor::text
