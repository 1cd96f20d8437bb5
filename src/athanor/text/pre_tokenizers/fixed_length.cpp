// FixedLength: pieces of so many characters; the last one may be shorter.
#include <fmt/core.h>

#include "athanor/text/pre_tokenizers/pre_tokenizer.h"
#include "athanor/text/unicode.h"

namespace athanor::text::pre_tokenizers {
namespace {

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(int64_t length) : length_(length) {}

  void split(Piece piece, const PieceSink& sink) const override {
    for (size_t at = 0; at < piece.text.size();) {
      const size_t begin = at;
      for (int64_t i = 0; i < length_ && at < piece.text.size(); ++i) at += decode_utf8(piece.text, at).size;
      sink(piece.part(begin, at));
    }
  }

 private:
  int64_t length_;
};

}  // namespace

std::unique_ptr<PreTokenizer> parse_fixed_length(const JsonNode& node) {
  const int64_t length = node.integer("length", 5);
  if (length < 1) node.at("length").fail(fmt::format("got {}, expected at least 1", length));
  return std::make_unique<FixedLength>(length);
}

}  // namespace athanor::text::pre_tokenizers
