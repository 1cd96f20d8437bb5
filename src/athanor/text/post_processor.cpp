#include "athanor/text/post_processor.h"

#include <fmt/core.h>

namespace athanor::text {
namespace {

int32_t id_in(const JsonNode& node) {
  const int64_t id = node.integer();
  if (id < 0 || id > INT32_MAX) node.fail(fmt::format("got {}, expected an id", id));
  return static_cast<int32_t>(id);
}

// "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [1]}}
SurroundingTokens parse_template(const JsonNode& node) {
  SurroundingTokens around;
  const auto pieces = node.find("single");
  if (!pieces) return around;
  bool behind = false;
  for (const JsonNode& piece : pieces->items()) {
    if (piece.find("Sequence")) {
      behind = true;
      continue;
    }
    const std::string name = piece.at("SpecialToken").at("id").text();
    for (const JsonNode& id : node.at("special_tokens").at(name).at("ids").items())
      (behind ? around.behind : around.before).push_back(id_in(id));
  }
  return around;
}

// BERT's and RoBERTa's: "cls": ["[CLS]", 101], "sep": ["[SEP]", 102].
int32_t named_id(const JsonNode& node) {
  const auto pair = node.items();
  if (pair.size() != 2) node.fail("expected a token and its id");
  return id_in(pair[1]);
}

}  // namespace

SurroundingTokens parse_post_processor(const JsonNode& node) {
  const std::string type = node.at("type").text();
  if (type == "ByteLevel") return {};  // trims offsets only
  if (type == "TemplateProcessing") return parse_template(node);
  if (type == "BertProcessing" || type == "RobertaProcessing")
    return {{named_id(node.at("cls"))}, {named_id(node.at("sep"))}};
  if (type != "Sequence")
    node.at("type").fail(
        "got '" + type +
        "', expected TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence");
  SurroundingTokens all;
  for (const JsonNode& step : node.at("processors").items()) {
    const SurroundingTokens around = parse_post_processor(step);
    all.before.insert(all.before.begin(), around.before.begin(), around.before.end());
    all.behind.insert(all.behind.end(), around.behind.begin(), around.behind.end());
  }
  return all;
}

}  // namespace athanor::text
