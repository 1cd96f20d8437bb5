// WordPiece (BERT): the longest token that begins a word, then repeatedly the longest token (with the prefix) that
// continues it. A word that cannot be completed in this way is unknown as a whole.
#include <fmt/core.h>

#include "athanor/base/check.h"
#include "athanor/text/models/model.h"
#include "athanor/text/unicode.h"

namespace athanor::text::models {
namespace {

struct WordPieceOptions {
  std::string name;
  std::string unk;
  std::string prefix;
  int64_t max_word_chars;
};

class WordPieceModel final : public Model {
 public:
  WordPieceModel(Vocabulary vocabulary, WordPieceOptions options)
      : vocabulary_(std::move(vocabulary)),
        options_(std::move(options)),
        unk_(vocabulary_.find(options_.unk)) {
    for (int32_t id = 0; id < vocabulary_.size(); ++id)
      if (const std::string* const token = vocabulary_.token(id))
        longest_token_ = std::max(longest_token_, token->size());
  }

  void encode_word(std::string_view word, std::vector<int32_t>& ids) const override {
    const size_t begin = ids.size();
    if (count_code_points(word) <= options_.max_word_chars && append_pieces(word, ids)) return;
    ids.resize(begin);
    check(unk_.has_value(), "{}: the vocabulary has neither '{}' nor the unk_token '{}'", options_.name,
          word.substr(0, 60), options_.unk);
    ids.push_back(*unk_);
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  bool append_pieces(std::string_view word, std::vector<int32_t>& ids) const {
    for (size_t at = 0; at < word.size();) {
      std::string piece = at > 0 ? options_.prefix : "";
      const size_t prefix_size = piece.size();
      piece += word.substr(at, longest_token_);
      std::optional<int32_t> id;
      while (piece.size() > prefix_size && !(id = vocabulary_.find(piece))) piece.pop_back();
      if (!id) return false;
      ids.push_back(*id);
      at += piece.size() - prefix_size;
    }
    return true;
  }

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  std::optional<int32_t> unk_;
  size_t longest_token_ = 0;
};

}  // namespace

std::unique_ptr<Model> parse_word_piece(const JsonNode& node) {
  WordPieceOptions options{node.name(), node.text("unk_token", "[UNK]"),
                           node.text("continuing_subword_prefix", "##"),
                           node.integer("max_input_chars_per_word", 100)};
  if (options.max_word_chars < 0)
    node.at("max_input_chars_per_word")
        .fail(fmt::format("got {}, expected at least 0", options.max_word_chars));
  return std::make_unique<WordPieceModel>(parse_vocabulary(node.at("vocab")), std::move(options));
}

}  // namespace athanor::text::models
