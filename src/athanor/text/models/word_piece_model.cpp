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
    if (append_pieces(word, [&](int32_t id, size_t, size_t) { ids.push_back(id); })) return;
    ids.resize(begin);
    ids.push_back(unk_for(word));
  }

  void trace_word(std::string_view word, std::vector<WordToken>& tokens) const override {
    const size_t size = tokens.size();
    const auto put = [&](int32_t id, size_t begin, size_t end) {
      tokens.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    };
    if (append_pieces(word, put)) return;
    tokens.resize(size);
    put(unk_for(word), 0, word.size());
  }

  size_t num_bytes_of(int32_t id) const override {
    const std::string* const token = vocabulary_.token(id);
    if (!token || id == unk_) return 0;
    return token->size() - (token->starts_with(options_.prefix) ? options_.prefix.size() : 0);
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  int32_t unk_for(std::string_view word) const {
    check(unk_.has_value(), "{}: the vocabulary has neither '{}' nor the unk_token '{}'", options_.name,
          word.substr(0, 60), options_.unk);
    return *unk_;
  }

  // put(id, begin, end) for each piece; false if a part of the word has none or the word is too long.
  template <typename Put>
  bool append_pieces(std::string_view word, const Put& put) const {
    if (count_code_points(word) > options_.max_word_chars) return false;
    for (size_t at = 0; at < word.size();) {
      std::string piece = at > 0 ? options_.prefix : "";
      const size_t prefix_size = piece.size();
      piece += word.substr(at, longest_token_);
      std::optional<int32_t> id;
      while (piece.size() > prefix_size && !(id = vocabulary_.find(piece))) piece.pop_back();
      if (!id) return false;
      const size_t end = at + piece.size() - prefix_size;
      put(*id, at, end);
      at = end;
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
