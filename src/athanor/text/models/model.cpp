#include "athanor/text/models/model.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace athanor::text::models {
namespace {

// Files written before models had a "type" are told apart by their keys.
std::string type_of(const JsonNode& node) {
  if (const auto type = node.find("type")) return type->text();
  if (node.find("merges")) return "BPE";
  if (node.find("max_input_chars_per_word")) return "WordPiece";
  return node.at("vocab").value().is_array() ? "Unigram" : "WordLevel";
}

}  // namespace

std::vector<std::pair<std::string, int64_t>> parse_tokens(const JsonNode& node) {
  if (!node.value().is_object()) node.fail_type("object");
  std::vector<std::pair<std::string, int64_t>> tokens;
  tokens.reserve(node.value().size());
  for (const auto& [token, id] : node.value().items()) {
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT64_MAX))
      node.at(token).integer();  // says what is wrong
    tokens.emplace_back(token, id.get<int64_t>());
  }
  return tokens;
}

Vocabulary parse_vocabulary(const JsonNode& node) {
  return {node.name(), parse_tokens(node)};
}

std::string Model::shown(int32_t id, std::string_view) const {
  const std::string* const token = vocabulary().token(id);
  return token ? *token : std::string();
}

std::unique_ptr<Model> parse_model(const JsonNode& node, std::optional<BpeTables> tables) {
  const std::string type = type_of(node);
  if (type == "BPE") return parse_bpe(node, std::move(tables));
  if (type == "WordLevel") return parse_word_level(node);
  if (type == "WordPiece") return parse_word_piece(node);
  if (type == "Unigram") return parse_unigram(node);
  node.at("type").fail(fmt::format("got '{}', expected BPE, WordLevel, WordPiece or Unigram", type));
}

}  // namespace athanor::text::models
