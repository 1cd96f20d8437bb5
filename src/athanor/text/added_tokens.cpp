#include "athanor/text/added_tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "athanor/text/unicode.h"

namespace athanor::text {
namespace {

// The last character of the text; kInvalidByte where there is none.
CodePoint last_char(std::string_view text) {
  for (size_t size = 1; size <= 4 && size <= text.size(); ++size) {
    const CodePoint c = decode_utf8(text, text.size() - size);
    if (c.size == size && c.value != kInvalidByte) return c;
  }
  return {kInvalidByte, 1};
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word(last_char(text).value);
}
bool starts_with_word(std::string_view text) {
  return !text.empty() && is_word(decode_utf8(text, 0).value);
}

size_t trailing_space(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const CodePoint c = last_char(text.substr(0, text.size() - size));
    if (!is_space(c.value)) break;
    size += c.size;
  }
  return size;
}

size_t leading_space(std::string_view text) {
  size_t size = 0;
  while (size < text.size() && is_space(decode_utf8(text, size).value)) size += decode_utf8(text, size).size;
  return size;
}

}  // namespace

std::vector<AddedToken> parse_added_tokens(const JsonNode& node, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  std::unordered_set<std::string> contents;
  std::unordered_set<int64_t> ids;
  const auto items = node.items();
  const int64_t limit = max_sane_id(items.size() + static_cast<size_t>(vocabulary.num_tokens()));
  for (const JsonNode& item : items) {
    AddedToken token;
    token.content = item.at("content").text();
    if (token.content.empty()) item.at("content").fail("is empty");
    const int64_t id = item.at("id").integer();
    if (id < 0 || id > limit) item.at("id").fail(fmt::format("got {}, expected 0 to {}", id, limit));
    // A token of the model keeps the model's id, as in Hugging Face's tokenizers.
    token.id = vocabulary.find(token.content).value_or(static_cast<int32_t>(id));
    token.single_word = item.boolean("single_word", false);
    token.lstrip = item.boolean("lstrip", false);
    token.rstrip = item.boolean("rstrip", false);
    token.special = item.boolean("special", false);
    token.normalized = item.boolean("normalized", !token.special);
    token.in_text = item.boolean("in_text", true);
    if (!contents.insert(token.content).second)
      item.at("content").fail(fmt::format("'{}' stands twice", token.content));
    if (!ids.insert(token.id).second) item.at("id").fail(fmt::format("{} stands twice", token.id));
    const std::string* const occupant = vocabulary.token(token.id);
    if (occupant && *occupant != token.content)
      item.at("id").fail(fmt::format("got {}, which is '{}' in the model", id, *occupant));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].content.empty()) continue;  // a normalizer may leave nothing of it
    contents_.add(tokens_[i].content, static_cast<int32_t>(i));
    first_[static_cast<uint8_t>(tokens_[i].content[0])] = true;
  }
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, size_t at,
                                                std::span<const ByteSpan> ordinary) const {
  const AddedToken* longest = nullptr;
  contents_.for_each_prefix(text, at, [&](size_t, int32_t i) {
    const AddedToken& token = tokens_[static_cast<size_t>(i)];
    if (!token.special || !touches(ordinary, at, at + token.content.size())) longest = &token;
  });
  return longest;
}

void AddedTokenMatcher::split(std::string_view text, const std::function<void(Segment)>& put,
                              std::span<const ByteSpan> ordinary) const {
  size_t done = 0;  // the text before it has been put
  if (!contents_.empty()) {
    for (size_t at = 0; at < text.size();) {
      const AddedToken* const token =
          first_[static_cast<uint8_t>(text[at])] ? longest_at(text, at, ordinary) : nullptr;
      if (!token) {
        ++at;
        continue;
      }
      const size_t match_end = at + token->content.size();
      if (token->single_word &&
          (ends_with_word(text.substr(0, at)) || starts_with_word(text.substr(match_end)))) {
        at = match_end;
        continue;
      }
      size_t begin = at, end = match_end;
      if (token->lstrip) begin = std::max(done, at - trailing_space(text.substr(0, at)));
      if (token->rstrip) end += leading_space(text.substr(match_end));
      if (begin > done) put({done, begin, std::nullopt});
      put({begin, end, token->id});
      done = at = end;
    }
  }
  if (done < text.size()) put({done, text.size(), std::nullopt});
}

}  // namespace athanor::text
