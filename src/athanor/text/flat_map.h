// A hash map from 64-bit keys to small values in one array (open addressing, linear probing), for the tables of BPE
// merge loops, which are looked up millions of times. Nothing is ever erased; the key ~0 is not allowed.
//
//   FlatMap<int32_t> ranks;  ranks[pair_key(a, b)] = 7;  const int32_t* rank = ranks.find(pair_key(a, b));
//
// Pointers and references are valid until the next insertion. Thread rule: as for a std::vector.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::text {

inline uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}
inline int32_t left_of(uint64_t key) {
  return static_cast<int32_t>(key >> 32);
}
inline int32_t right_of(uint64_t key) {
  return static_cast<int32_t>(key);
}

template <typename Value>
class FlatMap {
 public:
  const Value* find(uint64_t key) const {
    for (size_t i = home(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].first == key) return &slots_[i].second;
      if (slots_[i].first == kEmpty) return nullptr;
    }
  }
  Value* find(uint64_t key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

  Value& operator[](uint64_t key) {
    if ((size_ + 1) * 2 > slots_.size()) resize(slots_.size() * 2);
    size_t i = home(key);
    while (slots_[i].first != key && slots_[i].first != kEmpty) i = (i + 1) & (slots_.size() - 1);
    if (slots_[i].first == kEmpty) {
      slots_[i].first = key;
      ++size_;
    }
    return slots_[i].second;
  }

  void prefetch(uint64_t key) const { __builtin_prefetch(&slots_[home(key)]); }

  size_t size() const { return size_; }
  // Makes room for so many keys at once.
  void reserve(size_t num_keys) {
    if (const size_t num_slots = std::bit_ceil(2 * num_keys + 2); num_slots > slots_.size())
      resize(num_slots);
  }

  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [key, value] : slots_)
      if (key != kEmpty) visit(key, value);
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  size_t home(uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u;  // Fibonacci hashing: the high bits depend on every bit of the key
    return (key ^ key >> 32) & (slots_.size() - 1);
  }

  void resize(size_t num_slots) {
    std::vector<std::pair<uint64_t, Value>> old(num_slots, {kEmpty, Value{}});
    old.swap(slots_);
    for (auto& [key, value] : old) {
      if (key == kEmpty) continue;
      size_t i = home(key);
      while (slots_[i].first != kEmpty) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = {key, std::move(value)};
    }
  }

  std::vector<std::pair<uint64_t, Value>> slots_ =
      std::vector<std::pair<uint64_t, Value>>(16, {kEmpty, Value{}});
  size_t size_ = 0;
};

}  // namespace athanor::text
