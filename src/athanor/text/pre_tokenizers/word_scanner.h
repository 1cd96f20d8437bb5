// Hand-written scanners for the regular expressions that split text into words for GPT-2, GPT-4 (cl100k), Llama 3, Qwen 2,
// GPT-4o (o200k), Mistral Nemo and DeepSeek V3. They split exactly as the expressions do, without the cost of a regex engine; the tests compare both.
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
  o200k,   // GPT-4o and gpt-oss: words begin at capitals, contractions stay with their word, digits in threes
  nemo,    // as o200k without contractions, each digit alone
  // DeepSeek V3 cuts three times; what an expression does not match is a word, too.
  deepseek_digits,  // numbers in threes
  deepseek_cjk,     // runs of ideographs and kana
  deepseek_words,   // runs of letters with one character before them, of symbols, of white space
};

size_t word_end(WordPattern pattern, std::string_view text, size_t at);

// Whether the expression does not match every character: what lies between its matches is then a word of its own.
bool leaves_gaps(WordPattern pattern);
std::string_view regex_of(WordPattern pattern);
// The pattern with this regular expression, in any of the spellings found in published files.
std::optional<WordPattern> known_pattern(std::string_view regex);

}  // namespace athanor::text::pre_tokenizers
