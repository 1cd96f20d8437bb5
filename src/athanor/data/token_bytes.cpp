#include "athanor/data/token_bytes.h"

#include <simdjson.h>

#include <array>
#include <cctype>
#include <set>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::data {
namespace {

std::set<int64_t> special_ids(const Tokenizer& tokenizer) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::array added;
  const std::string& json = tokenizer.json();
  check(parser.parse(json).get(root) == simdjson::SUCCESS, "tokenizer.json: is not JSON");
  std::set<int64_t> ids;
  if (const auto end = tokenizer.end_of_text()) ids.insert(*end);
  if (root["added_tokens"].get(added) != simdjson::SUCCESS) return ids;
  for (const simdjson::dom::element token : added) {
    int64_t id = -1;
    bool special = false;
    if (token["id"].get(id) == simdjson::SUCCESS && token["special"].get(special) == simdjson::SUCCESS &&
        special)
      ids.insert(id);
  }
  return ids;
}

// "<0xE4>", the byte tokens of vocabularies that fall back to bytes.
bool is_byte_token(const std::string& token) {
  return token.size() == 6 && token.starts_with("<0x") && token.back() == '>' &&
         std::isxdigit(static_cast<unsigned char>(token[3])) &&
         std::isxdigit(static_cast<unsigned char>(token[4]));
}

}  // namespace

TokenBytes::TokenBytes(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

void TokenBytes::make_table() const {
  const std::set<int64_t> special = special_ids(*tokenizer_);
  bytes_.assign(static_cast<size_t>(tokenizer_->vocab_size()), 0);
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    if (special.contains(id)) continue;
    const std::string token = tokenizer_->token_of(id);
    if (token.empty()) continue;
    // The difference of two decodes, because some decoders drop a space in front of the first token only.
    const std::array<int32_t, 2> twice = {id, id};
    const size_t one = tokenizer_->decode(std::span(twice).first(1)).size();
    const size_t both = tokenizer_->decode(twice).size();
    bytes_[static_cast<size_t>(id)] = is_byte_token(token) ? 1 : static_cast<int32_t>(both - one);
  }
}

int64_t TokenBytes::of(std::span<const int32_t> ids) const {
  std::call_once(made_, [this] { make_table(); });
  int64_t total = 0;
  for (const int32_t id : ids)
    if (id >= 0 && static_cast<size_t>(id) < bytes_.size()) total += bytes_[static_cast<size_t>(id)];
  return total;
}

}  // namespace athanor::data
