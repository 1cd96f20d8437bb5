#include "athanor/text/token_usage.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/text/unicode.h"
#include "athanor/text/unicode/scripts.h"

namespace athanor::text {
namespace {

std::optional<double> ratio(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  return static_cast<double>(a) / static_cast<double>(b);
}

std::optional<int32_t> unknown_id(const Tokenizer& tokenizer) {
  using Event = nlohmann::json::parse_event_t;
  // Everything below the model's own keys is left out: a vocabulary is large and not needed.
  const auto keep = [](int depth, Event event, const nlohmann::json&) {
    return depth < 2 || event == Event::key || event == Event::value;
  };
  const nlohmann::json file = nlohmann::json::parse(tokenizer.json(), keep, false);
  if (!file.is_object() || !file.contains("model") || !file["model"].is_object()) return std::nullopt;
  const nlohmann::json& model = file["model"];
  if (const auto id = model.find("unk_id"); id != model.end() && id->is_number_integer())
    return id->get<int32_t>();
  if (const auto token = model.find("unk_token"); token != model.end() && token->is_string())
    return tokenizer.id_of(token->get<std::string>());
  return std::nullopt;
}

}  // namespace

int64_t count_words(std::string_view text) {
  enum class Before : uint8_t { space, word, alone } before = Before::space;
  int64_t words = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    at += c.size;
    if (is_space(c.value)) {
      before = Before::space;
    } else if (before != Before::space && is_mark(c.value)) {
      continue;  // a part of the character before it
    } else if (c.value >= 128 && unicode::has_no_spaces(unicode::script(c.value))) {
      before = Before::alone;
      ++words;
    } else {
      words += before == Before::word ? 0 : 1;
      before = Before::word;
    }
  }
  return words;
}

void TokenCounts::add(const TokenCounts& other) {
  bytes += other.bytes;
  words += other.words;
  tokens += other.tokens;
  unknown += other.unknown;
}

std::optional<double> TokenCounts::bytes_per_token() const {
  return ratio(bytes, tokens);
}

std::optional<double> TokenCounts::fertility() const {
  return ratio(tokens, words);
}

std::optional<double> TokenCounts::unknown_share() const {
  return ratio(unknown, tokens);
}

TokenUsage::TokenUsage(const Tokenizer& tokenizer)
    : used_(static_cast<size_t>(tokenizer.vocab_size())), unknown_(unknown_id(tokenizer)) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    num_pieces_ += tokenizer.token_of(id).empty() ? 0 : 1;
}

void TokenUsage::add(const std::string& channel, std::string_view text, int64_t words,
                     std::span<const int32_t> ids) {
  auto found = std::ranges::find(channels_, channel, &std::pair<std::string, TokenCounts>::first);
  if (found == channels_.end()) found = channels_.insert(channels_.end(), {channel, {}});
  found->second.add({.bytes = static_cast<int64_t>(text.size()),
                     .words = words,
                     .tokens = static_cast<int64_t>(ids.size()),
                     .unknown = unknown_ ? std::ranges::count(ids, *unknown_) : 0});
  for (const int32_t id : ids) {
    num_used_ += used_[static_cast<size_t>(id)] ? 0 : 1;
    used_[static_cast<size_t>(id)] = true;
  }
}

TokenCounts TokenUsage::all() const {
  TokenCounts sum;
  for (const auto& [channel, counts] : channels_) sum.add(counts);
  return sum;
}

}  // namespace athanor::text
