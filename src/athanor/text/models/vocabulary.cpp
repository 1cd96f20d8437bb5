#include "athanor/text/models/vocabulary.h"

#include <algorithm>
#include <bit>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor::text::models {

int64_t max_sane_id(size_t num_tokens) {
  return 16 * static_cast<int64_t>(num_tokens) + 65536;
}

Vocabulary::Vocabulary(const std::string& name, std::vector<std::pair<std::string, int64_t>>&& tokens) {
  fill(name, std::span(tokens));
}

Vocabulary::Vocabulary(const std::string& name,
                       std::span<const std::pair<std::string_view, int64_t>> tokens) {
  fill(name, tokens);
}

template <typename Entry>
void Vocabulary::fill(const std::string& name, std::span<Entry> tokens) {
  int64_t largest = -1;
  const int64_t limit = std::min<int64_t>(max_sane_id(tokens.size()), INT32_MAX - 1);
  for (const auto& [token, id] : tokens) {
    check(id >= 0 && id <= limit, "{}: id {} of '{}', expected 0 to {} for a vocabulary of {} tokens", name,
          id, token, limit, tokens.size());
    largest = std::max(largest, id);
  }
  tokens_.resize(static_cast<size_t>(largest + 1));
  present_.resize(tokens_.size());
  slots_.resize(std::bit_ceil(2 * tokens.size() + 1));
  num_tokens_ = static_cast<int32_t>(tokens.size());
  for (auto& [token, id] : tokens) {
    const auto i = static_cast<size_t>(id);
    const uint64_t hash = hash64(token);
    Slot& slot = slots_[slot_of(token, hash)];
    check(slot.id < 0, "{}: token '{}' stands twice", name, token);
    check(!present_[i], "{}: id {} is given to both '{}' and '{}'", name, id, tokens_[i], token);
    present_[i] = true;
    if constexpr (std::is_const_v<Entry>)
      tokens_[i] = token;
    else
      tokens_[i] = std::move(token);
    slot = {static_cast<uint32_t>(hash >> 32), static_cast<int32_t>(id)};
  }
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  const int32_t id = slots_[slot_of(token, hash64(token))].id;
  return id < 0 ? std::nullopt : std::optional(id);
}

size_t Vocabulary::slot_of(std::string_view token, uint64_t hash) const {
  size_t i = hash & (slots_.size() - 1);
  while (slots_[i].id >= 0 && (slots_[i].hash != static_cast<uint32_t>(hash >> 32) ||
                               tokens_[static_cast<size_t>(slots_[i].id)] != token))
    i = (i + 1) & (slots_.size() - 1);
  return i;
}

const std::string* Vocabulary::token(int32_t id) const {
  if (id < 0 || id >= size() || !present_[static_cast<size_t>(id)]) return nullptr;
  return &tokens_[static_cast<size_t>(id)];
}

}  // namespace athanor::text::models
