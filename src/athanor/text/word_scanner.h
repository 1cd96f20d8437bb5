// Hand-written scanners for the regular expressions by which GPT-2, GPT-4 (cl100k), Llama 3 and Qwen 2 cut
// text into words. They cut as those expressions do, without the cost of a regex engine; the tests hold
// both against each other.
//
//   for (size_t at = 0; at < text.size(); at = word_end(WordPattern::gpt2, text, at)) ...
//
// Every byte falls into exactly one word. Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace athanor::text {

enum class WordPattern : uint8_t {
  gpt2,    // runs of letters, of digits, of other symbols, each with one space before it
  cl100k,  // GPT-4 and Llama 3: digits in threes, line ends stay with punctuation
  qwen2,   // as cl100k, each digit alone
};

size_t word_end(WordPattern pattern, std::string_view text, size_t at);

std::string_view regex_of(WordPattern pattern);
// The pattern whose expression this is, in one of the spellings found in published files.
std::optional<WordPattern> known_pattern(std::string_view regex);

}  // namespace athanor::text
