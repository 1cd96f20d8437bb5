// Pre-tokenizers that cut between classes of characters: Digits, Punctuation, Whitespace, WhitespaceSplit,
// CharDelimiterSplit and BertPreTokenizer.
#include <string>

#include "athanor/text/pre_tokenizers/pre_tokenizer.h"
#include "athanor/text/unicode.h"

namespace athanor::text::pre_tokenizers {
namespace {

// Cuts out every character that is a delimiter.
class ClassSplit final : public PreTokenizer {
 public:
  ClassSplit(std::function<bool(uint32_t)> is_delimiter, SplitBehavior behavior)
      : is_delimiter_(std::move(is_delimiter)), behavior_(behavior) {}

  void split(Piece piece, const PieceSink& sink) const override {
    std::vector<Stretch> stretches;
    for (size_t at = 0; at < piece.text.size();) {
      const CodePoint c = decode_utf8(piece.text, at);
      const bool is_match = is_delimiter_(c.value);
      if (!is_match && !stretches.empty() && !stretches.back().is_match)
        stretches.back().end += c.size;
      else
        stretches.push_back({at, at + c.size, is_match});
      at += c.size;
    }
    emit_stretches(piece, std::move(stretches), behavior_, sink);
  }

 private:
  std::function<bool(uint32_t)> is_delimiter_;
  SplitBehavior behavior_;
};

// \w+|[^\w\s]+ : runs of word characters and runs of other symbols; spaces are dropped.
class WhitespacePreTokenizer final : public PreTokenizer {
 public:
  void split(Piece piece, const PieceSink& sink) const override {
    enum class Kind : uint8_t { space, word, symbol };
    const auto kind_of = [](uint32_t c) {
      return is_word(c) ? Kind::word : is_space(c) ? Kind::space : Kind::symbol;
    };
    for (size_t at = 0; at < piece.text.size();) {
      const size_t begin = at;
      CodePoint c = decode_utf8(piece.text, at);
      const Kind kind = kind_of(c.value);
      while (kind_of(c.value) == kind) {
        at += c.size;
        if (at == piece.text.size()) break;
        c = decode_utf8(piece.text, at);
      }
      if (kind != Kind::space) sink(piece.part(begin, at));
    }
  }
};

class BertPreTokenizer final : public PreTokenizer {
 public:
  void split(Piece piece, const PieceSink& sink) const override {
    spaces_.split(piece, [&](Piece part) { punctuation_.split(part, sink); });
  }

 private:
  ClassSplit spaces_{is_space, SplitBehavior::removed};
  ClassSplit punctuation_{is_punctuation_of_bert, SplitBehavior::isolated};
};

}  // namespace

std::unique_ptr<PreTokenizer> parse_class_split(const JsonNode& node) {
  const std::string type = node.at("type").text();
  const auto make = [](std::function<bool(uint32_t)> is_delimiter, SplitBehavior behavior) {
    return std::make_unique<ClassSplit>(std::move(is_delimiter), behavior);
  };
  if (type == "Digits")
    return make(is_number, node.boolean("individual_digits", false) ? SplitBehavior::isolated
                                                                    : SplitBehavior::contiguous);
  if (type == "Punctuation") {
    const auto behavior = node.find("behavior");
    return make(is_punctuation_of_bert, behavior ? parse_split_behavior(*behavior) : SplitBehavior::isolated);
  }
  if (type == "WhitespaceSplit") return make(is_space, SplitBehavior::removed);
  if (type == "CharDelimiterSplit") {
    const uint32_t delimiter = node.at("delimiter").character();
    return make([delimiter](uint32_t c) { return c == delimiter; }, SplitBehavior::removed);
  }
  if (type == "Whitespace") return std::make_unique<WhitespacePreTokenizer>();
  if (type == "BertPreTokenizer") return std::make_unique<BertPreTokenizer>();
  return nullptr;
}

}  // namespace athanor::text::pre_tokenizers
