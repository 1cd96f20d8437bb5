// The "model" of a tokenizer.json whose type is BPE.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/text/models/bpe_model.h"
#include "athanor/text/models/bpe_tables.h"

namespace athanor::text::models {
namespace {

using Merges = std::vector<std::pair<int32_t, int32_t>>;

// Merges stand as ["a", "b"] or, in older files, as "a b".
std::pair<std::string, std::string> parse_pair(const JsonNode& node) {
  if (node.value().is_string()) {
    const std::string line = node.text();
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      node.fail(fmt::format("got '{}', expected two tokens with one space between", line));
    return {line.substr(0, space), line.substr(space + 1)};
  }
  const auto items = node.items();
  if (items.size() != 2) node.fail(fmt::format("got {} items, expected 2", items.size()));
  return {items[0].text(), items[1].text()};
}

BpeTables tables_of(const JsonNode& node) {
  BpeTables tables;
  const JsonNode vocab = node.at("vocab");
  for (auto& [token, id] : parse_tokens(vocab))
    tables.vocab.emplace_back(tables.storage.emplace_back(token), id);
  for (const JsonNode& item : node.at("merges").items()) {
    auto [left, right] = parse_pair(item);
    tables.merges.emplace_back(tables.storage.emplace_back(std::move(left)),
                               tables.storage.emplace_back(std::move(right)));
  }
  return tables;
}

Merges find_merges(const BpeTables& tables, const Vocabulary& vocabulary, const std::string& name) {
  Merges merges;
  merges.reserve(tables.merges.size());
  for (const auto& [left, right] : tables.merges) {
    const auto left_id = vocabulary.find(left), right_id = vocabulary.find(right);
    check(left_id && right_id, "{}[{}]: token '{}' is not in the vocabulary", name, merges.size(),
          left_id ? right : left);
    merges.emplace_back(*left_id, *right_id);
  }
  return merges;
}

}  // namespace

std::unique_ptr<Model> parse_bpe(const JsonNode& node, std::optional<BpeTables> given) {
  const BpeTables tables = given ? *std::move(given) : tables_of(node);
  Vocabulary vocabulary(node.at("vocab").name(), tables.vocab);
  const Merges merges = find_merges(tables, vocabulary, node.at("merges").name());
  BpeOptions options;
  options.name = node.name();
  if (const auto unk = node.find("unk_token")) {
    options.unk = vocabulary.find(unk->text());
    if (!options.unk) options.missing_unk = unk->text();
  }
  if (const auto dropout = node.find("dropout"); dropout && dropout->number() != 0)
    dropout->fail(fmt::format("got {}, expected null: encoding makes no random choices", dropout->number()));
  options.continuing_subword_prefix = node.text("continuing_subword_prefix", "");
  options.end_of_word_suffix = node.text("end_of_word_suffix", "");
  options.fuse_unk = node.boolean("fuse_unk", false);
  options.byte_fallback = node.boolean("byte_fallback", false);
  options.ignore_merges = node.boolean("ignore_merges", false);
  return std::make_unique<BpeModel>(std::move(vocabulary), merges, std::move(options));
}

}  // namespace athanor::text::models
