#include "athanor/text/post_processor.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "athanor/text/byte_level.h"
#include "athanor/text/unicode.h"

namespace athanor::text {
namespace {

int32_t id_in(const JsonNode& node) {
  const int64_t id = node.integer();
  if (id < 0 || id > INT32_MAX) node.fail(fmt::format("got {}, expected an id", id));
  return static_cast<int32_t>(id);
}

bool is_blank(uint32_t c) {
  return c == char_of_byte(' ') || is_space(c);
}

// How many characters at the front of a token are blank, and at its back.
std::pair<size_t, size_t> blanks(std::string_view token) {
  size_t front = 0, back = 0, size = 0;
  for (size_t at = 0; at < token.size(); ++size) {
    const CodePoint c = decode_utf8(token, at);
    at += c.size;
    back = is_blank(c.value) ? back + 1 : 0;
    if (front == size && is_blank(c.value)) ++front;
  }
  return {front, back};
}

size_t size_before(std::string_view text, size_t at) {
  size_t size = 1;
  while (size < at && (static_cast<uint8_t>(text[at - size]) & 0xC0) == 0x80) ++size;
  return size;
}

void append(Encoding& all, const Encoding& part, int32_t type) {
  all.ids.insert(all.ids.end(), part.ids.begin(), part.ids.end());
  all.ranges.insert(all.ranges.end(), part.ranges.begin(), part.ranges.end());
  all.tokens.insert(all.tokens.end(), part.tokens.begin(), part.tokens.end());
  all.types.resize(all.ids.size(), type);
  all.special.resize(all.ids.size(), false);
}

}  // namespace

// "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
// "special_tokens": {"<s>": {"ids": [1], "tokens": ["<s>"]}}
void PostProcessor::parse_template(const JsonNode& node, const char* key, std::vector<Item>& items) {
  const auto pieces = node.find(key);
  if (!pieces) return;
  items.clear();
  for (const JsonNode& piece : pieces->items()) {
    if (const auto sequence = piece.find("Sequence")) {
      const std::string which = sequence->text("id", "A");
      if (which != "A" && which != "B") sequence->at("id").fail("got '" + which + "', expected A or B");
      items.push_back(
          {.sequence = which == "A" ? 0 : 1, .type = static_cast<int32_t>(sequence->integer("type_id", 0))});
      continue;
    }
    const JsonNode special = piece.at("SpecialToken");
    const std::string name = special.at("id").text();
    const JsonNode token = node.at("special_tokens").at(name);
    const auto ids = token.at("ids").items();
    const auto shown = token.find("tokens");
    for (size_t i = 0; i < ids.size(); ++i)
      items.push_back({.id = id_in(ids[i]),
                       .token = shown && i < shown->items().size() ? shown->items()[i].text() : name,
                       .type = static_cast<int32_t>(special.integer("type_id", 0))});
  }
}

void PostProcessor::read(const JsonNode& node) {
  const std::string type = node.at("type").text();
  if (type == "ByteLevel" || type == "RobertaProcessing")
    if (node.boolean("trim_offsets", true)) trims_.push_back(node.boolean("add_prefix_space", true));
  if (type == "ByteLevel") return;
  if (type == "TemplateProcessing") {
    parse_template(node, "single", single_);
    return parse_template(node, "pair", pair_);
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    // "cls": ["[CLS]", 101], "sep": ["[SEP]", 102]
    const auto named = [&](const char* key) {
      const auto pair = node.at(key).items();
      if (pair.size() != 2) node.at(key).fail("expected a token and its id");
      return Item{.id = id_in(pair[1]), .token = pair[0].text()};
    };
    const Item begin = named("cls"), end = named("sep");
    const Item first{.sequence = 0};
    single_ = {begin, first, end};
    if (type == "BertProcessing") {
      Item last = end;
      last.type = 1;
      pair_ = {begin, first, end, {.sequence = 1, .type = 1}, last};
    } else {
      pair_ = {begin, first, end, end, {.sequence = 1}, end};
    }
    return;
  }
  if (type != "Sequence")
    node.at("type").fail(
        "got '" + type +
        "', expected TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence");
  for (const JsonNode& step : node.at("processors").items()) {
    PostProcessor next;
    next.read(step);
    trims_.insert(trims_.end(), next.trims_.begin(), next.trims_.end());
    // A later one puts its tokens around those of an earlier one.
    std::vector<Item> around;
    for (const Item& item : next.single_) {
      if (!item.sequence)
        around.push_back(item);
      else
        std::ranges::copy(single_, std::back_inserter(around));
    }
    single_ = std::move(around);
    if (step.find("pair") || step.find("sep")) pair_ = std::move(next.pair_);
  }
}

SurroundingTokens PostProcessor::around() const {
  SurroundingTokens around;
  bool behind = false;
  for (const Item& item : single_) {
    if (item.sequence)
      behind = true;
    else
      (behind ? around.behind : around.before).push_back(item.id);
  }
  return around;
}

Encoding PostProcessor::process(const Encoding& first, const std::optional<Encoding>& second) const {
  Encoding all;
  const bool has_tokens = !first.tokens.empty() || (second && !second->tokens.empty());
  for (const Item& item : second ? pair_ : single_) {
    if (item.sequence) {
      if (*item.sequence == 0 || second) append(all, *item.sequence == 0 ? first : *second, item.type);
      continue;
    }
    Encoding special{.ids = {item.id}, .ranges = {{}}};
    if (has_tokens) special.tokens = {item.token};
    append(all, special, item.type);
    all.special.back() = true;
  }
  return all;
}

void PostProcessor::trim(std::string_view text, Encoding& encoding) const {
  for (const bool has_prefix : trims_)
    for (size_t i = 0; i < encoding.ids.size(); ++i) {
      auto [front, back] = blanks(encoding.tokens[i]);
      TextRange& range = encoding.ranges[i];
      // The one space may be the one that was put before the text.
      if ((i == 0 || range.begin == 0) && has_prefix && front == 1) front = 0;
      for (; front > 0 && range.begin < range.end; --front)
        range.begin += decode_utf8(text, range.begin).size;
      range.begin = std::min(range.begin, range.end);
      for (; back > 0 && range.end > range.begin; --back)
        range.end -=
            static_cast<uint32_t>(std::min<size_t>(size_before(text, range.end), range.end - range.begin));
    }
}

PostProcessor parse_post_processor(const JsonNode& node) {
  PostProcessor post;
  post.read(node);
  return post;
}

}  // namespace athanor::text
