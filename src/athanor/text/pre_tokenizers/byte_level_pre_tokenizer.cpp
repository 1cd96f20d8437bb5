// ByteLevel: cuts by GPT-2's pattern, then writes the bytes of each word as printable characters.
#include "athanor/text/byte_level.h"
#include "athanor/text/pre_tokenizers/pre_tokenizer.h"
#include "athanor/text/pre_tokenizers/word_scanner.h"

namespace athanor::text::pre_tokenizers {
namespace {

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}

  void split(Piece piece, const PieceSink& sink) const override {
    if (piece.text.empty()) return;
    if (!add_prefix_space_ || piece.text.front() == ' ') return cut(piece, sink);
    const NormalizedText prefixed = with_prefix(" ", piece);
    cut(prefixed.piece(piece.at_start), sink);
  }

  bool drop_final_byte_map() override {
    map_ = false;
    return true;
  }
  bool maps_bytes() const override { return true; }

 private:
  void cut(Piece piece, const PieceSink& sink) const {
    if (!use_regex_) return put(piece, sink);
    for (size_t at = 0; at < piece.text.size();) {
      const size_t end = word_end(WordPattern::gpt2, piece.text, at);
      put(piece.part(at, end), sink);
      at = end;
    }
  }

  void put(Piece piece, const PieceSink& sink) const {
    if (!map_) return sink(piece);
    NormalizedText chars(piece);
    bytes_to_chars(chars);
    sink(chars.piece(piece.at_start));
  }

  bool add_prefix_space_, use_regex_;
  bool map_ = true;
};

}  // namespace

std::unique_ptr<PreTokenizer> parse_byte_level_pre_tokenizer(const JsonNode& node) {
  return std::make_unique<ByteLevelPreTokenizer>(node.boolean("add_prefix_space", true),
                                                 node.boolean("use_regex", true));
}

}  // namespace athanor::text::pre_tokenizers
