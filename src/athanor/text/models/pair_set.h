// An approximate set of pairs, one bit each: it may hold a pair that was not added, but never lacks one that was. Merges are
// looked up for every pair of neighbours, and most have none, so a bit that stays in the cache spares most look-ups in a
// table that does not.
//
//   PairSet pairs(1000);  pairs.add(pair_key(a, b));  pairs.may_hold(pair_key(a, b));   // true
//
// Thread rule: const methods from any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::text::models {

class PairSet {
 public:
  PairSet() : PairSet(0) {}
  // About one pair of sixteen that were not added seems to be held once `expected` are.
  explicit PairSet(size_t expected)
      : words_(std::bit_ceil(expected / 4 + 1)), shift_(58 - std::countr_zero(words_.size())) {}

  void add(uint64_t key) { words_[place(key) >> 6] |= uint64_t{1} << (place(key) & 63); }
  bool may_hold(uint64_t key) const { return words_[place(key) >> 6] >> (place(key) & 63) & 1; }

 private:
  size_t place(uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u;
    return (key ^ key >> 32) * 0xD6E8FEB86659FD93u >> shift_;
  }

  std::vector<uint64_t> words_;
  int shift_;
};

}  // namespace athanor::text::models
