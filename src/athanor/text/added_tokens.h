// Added tokens: tokens such as <|endoftext|> that are found in the text itself, before the model sees it.
//
//   const AddedTokenMatcher matcher(tokens);
//   matcher.split(text, [&](Segment s) { s.id ? ids.push_back(*s.id) : encode(text.substr(s.begin, s.end - s.begin)); });
//
// If several tokens match at one position, the longest wins; matches run from left to right.
// Thread rule: const methods from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/text/byte_span.h"
#include "athanor/text/json_node.h"
#include "athanor/text/models/trie.h"
#include "athanor/text/models/vocabulary.h"

namespace athanor::text {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // matches only if no word character stands on either side
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = false;   // matched in normalized text; false: in the raw text
  bool special = false;
  bool in_text = true;  // false: no text holds it, like SentencePiece's control symbols. Our own key
};

// Reads "added_tokens"; checks them against each other and the model's vocabulary.
std::vector<AddedToken> parse_added_tokens(const JsonNode& node, const Vocabulary& vocabulary);

struct Segment {
  size_t begin, end;
  std::optional<int32_t> id;  // none: ordinary text
};

class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  // Calls `put` with the segments of the text in order; no segment is empty.
  // Special tokens are not found in the bytes of `ordinary` (in order), nor where they reach into them.
  void split(std::string_view text, const std::function<void(Segment)>& put,
             std::span<const ByteSpan> ordinary = {}) const;

 private:
  const AddedToken* longest_at(std::string_view text, size_t at, std::span<const ByteSpan> ordinary) const;

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> first_{};  // bytes with which some token begins
  Trie contents_;                  // to indices into tokens_
};

}  // namespace athanor::text
