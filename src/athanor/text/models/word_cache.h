// Caches the ids of short words: text repeats its words, and a look-up is far cheaper than merging.
//
//   if (const auto hit = cache.find(word, hash)) append(*hit); else cache.put(word, hash, ids);
//
// Direct-mapped: one slot per hash, and a newer word replaces an older one, so memory is bounded. Thread rule: one
// thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::text::models {

class WordCache {
 public:
  static constexpr size_t kMaxBytes = 22;
  static constexpr size_t kMaxIds = 10;

  WordCache() : slots_(kNumSlots) {}

  // The ids are valid until the next put().
  std::optional<std::span<const int32_t>> find(std::string_view word, uint64_t hash) const {
    const Slot& slot = slots_[hash % kNumSlots];
    if (slot.num_bytes != word.size() || word.empty()) return std::nullopt;
    if (std::memcmp(slot.bytes, word.data(), word.size()) != 0) return std::nullopt;
    return std::span(slot.ids, slot.num_ids);
  }

  void put(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
    if (word.size() > kMaxBytes || ids.size() > kMaxIds) return;
    Slot& slot = slots_[hash % kNumSlots];
    slot.num_bytes = static_cast<uint8_t>(word.size());
    slot.num_ids = static_cast<uint8_t>(ids.size());
    std::copy(word.begin(), word.end(), slot.bytes);
    std::copy(ids.begin(), ids.end(), slot.ids);
  }

 private:
  static constexpr size_t kNumSlots = 1 << 15;
  struct Slot {  // one cache line
    int32_t ids[kMaxIds];
    uint8_t num_bytes = 0;
    uint8_t num_ids = 0;
    char bytes[kMaxBytes];
  };
  static_assert(sizeof(Slot) == 64);

  std::vector<Slot> slots_;
};

}  // namespace athanor::text::models
