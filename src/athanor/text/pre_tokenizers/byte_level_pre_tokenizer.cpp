// ByteLevel: cuts by GPT-2's pattern, then writes the bytes of each word as printable characters.
#include <string>

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
    std::string prefixed;
    if (add_prefix_space_ && piece.text.front() != ' ') {
      prefixed.append(1, ' ').append(piece.text);
      piece.text = prefixed;
    }
    if (!use_regex_) return put(piece, sink);
    for (size_t at = 0; at < piece.text.size();) {
      const size_t end = word_end(WordPattern::gpt2, piece.text, at);
      put({piece.text.substr(at, end - at), piece.at_start && at == 0}, sink);
      at = end;
    }
  }

  bool drop_final_byte_map() override {
    map_ = false;
    return true;
  }
  bool maps_bytes() const override { return true; }

 private:
  void put(Piece piece, const PieceSink& sink) const {
    if (!map_) return sink(piece);
    const std::string chars = bytes_to_chars(piece.text);
    sink({chars, piece.at_start});
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
