#include "athanor/text/models/vocabulary.h"

#include <algorithm>

#include "athanor/base/check.h"

namespace athanor::text::models {

int64_t max_sane_id(size_t num_tokens) {
  return 16 * static_cast<int64_t>(num_tokens) + 65536;
}

Vocabulary::Vocabulary(const std::string& name, std::vector<std::pair<std::string, int64_t>>&& tokens) {
  int64_t largest = -1;
  const int64_t limit = std::min<int64_t>(max_sane_id(tokens.size()), INT32_MAX - 1);
  for (const auto& [token, id] : tokens) {
    check(id >= 0 && id <= limit, "{}: id {} of '{}', expected 0 to {} for a vocabulary of {} tokens", name,
          id, token, limit, tokens.size());
    largest = std::max(largest, id);
  }
  tokens_.resize(static_cast<size_t>(largest + 1));
  present_.resize(tokens_.size());
  ids_.reserve(tokens.size());
  for (auto& [token, id] : tokens) {
    const auto i = static_cast<size_t>(id);
    check(!present_[i], "{}: id {} is given to both '{}' and '{}'", name, id, tokens_[i], token);
    present_[i] = true;
    tokens_[i] = std::move(token);
    check(ids_.emplace(tokens_[i], static_cast<int32_t>(id)).second, "{}: token '{}' stands twice", name,
          tokens_[i]);
  }
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Vocabulary::token(int32_t id) const {
  if (id < 0 || id >= size() || !present_[static_cast<size_t>(id)]) return nullptr;
  return &tokens_[static_cast<size_t>(id)];
}

}  // namespace athanor::text::models
