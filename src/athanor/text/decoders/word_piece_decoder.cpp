// WordPiece: a token starts a new word unless it has the prefix.
#include <array>
#include <utility>

#include "athanor/text/decoders/decoder.h"
#include "athanor/text/pre_tokenizers/pattern.h"

namespace athanor::text::decoders {
namespace {

// English orthography that the space between tokens breaks, mended in this order.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kCleanup = {{{" .", "."},
                                                                                     {" ?", "?"},
                                                                                     {" !", "!"},
                                                                                     {" ,", ","},
                                                                                     {" ' ", "'"},
                                                                                     {" n't", "n't"},
                                                                                     {" 'm", "'m"},
                                                                                     {" do not", " don't"},
                                                                                     {" 's", "'s"},
                                                                                     {" 've", "'ve"},
                                                                                     {" 're", "'re"}}};

class WordPieceDecoder final : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  void decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& text = tokens[i];
      if (i > 0) {
        if (text.starts_with(prefix_))
          text.erase(0, prefix_.size());
        else
          text.insert(0, 1, ' ');
      }
      if (!cleanup_) continue;
      for (const auto& [from, to] : kCleanup) text = Pattern(std::string(from)).replace_all(text, to);
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

}  // namespace

std::unique_ptr<Decoder> parse_word_piece_decoder(const JsonNode& node) {
  return std::make_unique<WordPieceDecoder>(node.text("prefix", "##"), node.boolean("cleanup", true));
}

}  // namespace athanor::text::decoders
