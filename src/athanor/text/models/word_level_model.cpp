// WordLevel: a word is a token or unknown.
#include <fmt/core.h>

#include "athanor/base/check.h"
#include "athanor/text/models/model.h"

namespace athanor::text::models {
namespace {

class WordLevelModel final : public Model {
 public:
  WordLevelModel(std::string name, Vocabulary vocabulary, std::optional<int32_t> unk)
      : name_(std::move(name)), vocabulary_(std::move(vocabulary)), unk_(unk) {}

  void encode_word(std::string_view word, std::vector<int32_t>& ids) const override {
    const auto id = vocabulary_.find(word);
    check(id || unk_, "{}: the vocabulary has neither '{}' nor its unk_token", name_, word.substr(0, 60));
    ids.push_back(id ? *id : *unk_);
  }
  void trace_word(std::string_view word, std::vector<WordToken>& tokens) const override {
    std::vector<int32_t> ids;
    encode_word(word, ids);
    tokens.push_back({ids[0], 0, static_cast<uint32_t>(word.size())});
  }
  size_t num_bytes_of(int32_t id) const override {
    const std::string* const token = vocabulary_.token(id);
    return token && id != unk_ ? token->size() : 0;
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  std::string name_;
  Vocabulary vocabulary_;
  std::optional<int32_t> unk_;
};

}  // namespace

std::unique_ptr<Model> parse_word_level(const JsonNode& node) {
  Vocabulary vocabulary = parse_vocabulary(node.at("vocab"));
  const auto unk = vocabulary.find(node.text("unk_token", "<unk>"));
  return std::make_unique<WordLevelModel>(node.name(), std::move(vocabulary), unk);
}

}  // namespace athanor::text::models
