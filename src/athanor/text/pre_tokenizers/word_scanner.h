// Hand-written scanners for the regular expressions that split text into words for GPT-2, GPT-4 (cl100k), Llama 3 and
// Qwen 2. They split exactly as the expressions do, without the cost of a regex engine; the tests compare both.
//
//   for (size_t at = 0; at < text.size(); at = word_end(WordPattern::gpt2, text, at)) count(at);
//
// Every byte is in exactly one word. Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::text::pre_tokenizers {

enum class WordPattern : uint8_t {
  gpt2,    // runs of letters, of digits, of other symbols, each with one space before it
  cl100k,  // GPT-4 and Llama 3: digits in threes, line ends stay with punctuation
  qwen2,   // as cl100k, each digit alone
};

size_t word_end(WordPattern pattern, std::string_view text, size_t at);

std::string_view regex_of(WordPattern pattern);
// The pattern with this regular expression, in any of the spellings found in published files.
std::optional<WordPattern> known_pattern(std::string_view regex);

}  // namespace athanor::text::pre_tokenizers
