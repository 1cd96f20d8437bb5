// Splits text into the words that a model encodes one by one. One file per group of pre-tokenizers.
//
//   pre_tokenizer->split({.text = text, .at_start = true}, [&](Piece word) { model.encode_word(word.text, ids); });
//
// Pieces come in order and are never empty; a piece's text lives only during the call.
// Thread rule: const methods from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "athanor/text/json_node.h"
#include "athanor/text/normalized_text.h"

namespace athanor::text::pre_tokenizers {

using text::Piece;
using PieceSink = std::function<void(Piece)>;

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(Piece piece, const PieceSink& sink) const = 0;
  // If the last step writes bytes as printable characters (ByteLevel), drops that step and returns true: the model then
  // reads raw bytes.
  virtual bool drop_final_byte_map() { return false; }
  // Whether it writes all bytes as characters, so that everything after it is UTF-8.
  virtual bool maps_bytes() const { return false; }
};

std::unique_ptr<PreTokenizer> parse_pre_tokenizer(const JsonNode& node);
std::unique_ptr<PreTokenizer> parse_split(const JsonNode& node);
std::unique_ptr<PreTokenizer> parse_byte_level_pre_tokenizer(const JsonNode& node);
std::unique_ptr<PreTokenizer> parse_metaspace_pre_tokenizer(const JsonNode& node);
std::unique_ptr<PreTokenizer> parse_fixed_length(const JsonNode& node);
std::unique_ptr<PreTokenizer> make_unicode_scripts();
// Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit, BertPreTokenizer; nullptr for another
// type.
std::unique_ptr<PreTokenizer> parse_class_split(const JsonNode& node);

// What happens to the delimiters that a Split finds.
enum class SplitBehavior : uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };
SplitBehavior parse_split_behavior(const JsonNode& node);

// A range of text: a delimiter (is_match), or the text between two delimiters.
struct Stretch {
  size_t begin, end;
  bool is_match;
};
void emit_stretches(Piece piece, std::vector<Stretch> stretches, SplitBehavior behavior,
                    const PieceSink& sink);

}  // namespace athanor::text::pre_tokenizers
