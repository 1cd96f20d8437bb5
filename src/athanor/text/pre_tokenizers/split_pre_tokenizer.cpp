// Split: cuts at the matches of a regular expression or of a literal string.
#include <nlohmann/json.hpp>
#include <optional>

#include "athanor/text/pre_tokenizers/pattern.h"
#include "athanor/text/pre_tokenizers/pre_tokenizer.h"
#include "athanor/text/pre_tokenizers/word_scanner.h"

namespace athanor::text::pre_tokenizers {
namespace {

class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void split(Piece piece, const PieceSink& sink) const override {
    std::vector<Stretch> stretches;
    size_t last_end = 0;
    pattern_.for_each_match(piece.text, [&](size_t begin, size_t end) {
      if (begin > last_end) stretches.push_back({last_end, begin, invert_});
      stretches.push_back({begin, end, !invert_});
      last_end = end;
    });
    if (last_end < piece.text.size()) stretches.push_back({last_end, piece.text.size(), invert_});
    emit_stretches(piece, std::move(stretches), behavior_, sink);
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// The pieces of a well-known pattern are simply its words, with what it leaves between them where matches are isolated.
class WordSplit final : public PreTokenizer {
 public:
  explicit WordSplit(WordPattern pattern) : pattern_(pattern) {}

  void split(Piece piece, const PieceSink& sink) const override {
    for (size_t at = 0; at < piece.text.size();) {
      const size_t end = word_end(pattern_, piece.text, at);
      sink(piece.part(at, end));
      at = end;
    }
  }

 private:
  WordPattern pattern_;
};

}  // namespace

std::unique_ptr<PreTokenizer> parse_split(const JsonNode& node) {
  const SplitBehavior behavior = parse_split_behavior(node.at("behavior"));
  const bool invert = node.boolean("invert", false);
  const JsonNode pattern = node.at("pattern");
  const bool keeps_matches =
      behavior == SplitBehavior::isolated || (behavior == SplitBehavior::removed && invert);
  if (const auto regex = pattern.value().is_object() ? pattern.find("Regex") : std::nullopt;
      regex && keeps_matches)
    if (const auto known = known_pattern(regex->text());
        known && (behavior == SplitBehavior::isolated || !leaves_gaps(*known)))
      return std::make_unique<WordSplit>(*known);
  return std::make_unique<SplitPreTokenizer>(parse_pattern(pattern), behavior, invert);
}

}  // namespace athanor::text::pre_tokenizers
