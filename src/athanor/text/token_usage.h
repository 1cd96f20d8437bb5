// What a tokenizer makes of texts: bytes, tokens, words, unknown tokens, and which tokens no text has used.
//
//   TokenUsage usage(*tokenizer);
//   usage.add("en", text, count_words(text), tokenizer->encode_ordinary(text));
//   usage.channels()[0].second.bytes_per_token();
//
// A word is a run of characters that are no space; each character of a script without spaces (Chinese, Japanese, Thai,
// Lao, Khmer, Burmese, Tibetan) is a word of its own. Fertility is tokens per word (Rust et al., "How Good is Your
// Tokenizer?", 2021). Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/text/tokenizer.h"

namespace athanor::text {

int64_t count_words(std::string_view text);

struct TokenCounts {
  int64_t bytes = 0, words = 0, tokens = 0, unknown = 0;

  void add(const TokenCounts& other);
  // nullopt where there is nothing to divide by.
  std::optional<double> bytes_per_token() const;
  std::optional<double> fertility() const;      // tokens per word
  std::optional<double> unknown_share() const;  // of the tokens
};

class TokenUsage {
 public:
  // The token for what the vocabulary lacks is the model's unk_token or unk_id.
  explicit TokenUsage(const Tokenizer& tokenizer);

  // `words`: count_words(text), once for all tokenizers. Channels stand in the order of their first text.
  void add(const std::string& channel, std::string_view text, int64_t words, std::span<const int32_t> ids);

  const std::vector<std::pair<std::string, TokenCounts>>& channels() const { return channels_; }
  TokenCounts all() const;
  int64_t num_pieces() const { return num_pieces_; }  // tokens of the vocabulary, added ones included
  int64_t num_unused() const { return num_pieces_ - num_used_; }

 private:
  std::vector<std::pair<std::string, TokenCounts>> channels_;
  std::vector<bool> used_;  // by id
  std::optional<int32_t> unknown_;
  int64_t num_pieces_ = 0, num_used_ = 0;
};

}  // namespace athanor::text

namespace athanor {
using text::TokenCounts;
using text::TokenUsage;
}  // namespace athanor
