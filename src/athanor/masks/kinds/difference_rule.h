// Rules that depend on i - j alone, and those of parts of equal length.
//
//   DifferenceRule(-256, 256)     // |i - j| <= 256
//   EqualParts(64, 1)             // the parts of 64 positions at whose sides the query's own lies, and that one
//
// Thread rule: values that do not change.
#pragma once

#include "athanor/masks/kinds/row_bits.h"
#include "athanor/masks/kinds/term_kind.h"

namespace athanor::masks::kinds {

constexpr int64_t kFar = int64_t{1} << 60;  // farther than any two positions

// The differences i - j of a block are all from lowest to highest.
struct Differences {
  explicit Differences(const PairBlock& block)
      : lowest(block.query - (block.key + block.keys - 1)),
        highest(block.query + block.queries - 1 - block.key) {}
  bool are_within(int64_t low, int64_t high) const { return low <= lowest && highest <= high; }
  bool touch(int64_t low, int64_t high) const { return lowest <= high && low <= highest; }
  int64_t lowest, highest;
};

class DifferenceRule : public MaskRule {
 public:
  DifferenceRule(int64_t low, int64_t high) : low_(low), high_(high) {}
  uint64_t row(int64_t query, int64_t first_key) const override {
    return keys_between(query - high_, query - low_ + 1, first_key);
  }
  Seen block(const PairBlock& block) const override {
    const Differences differences(block);
    if (!differences.touch(low_, high_)) return Seen::none;
    return differences.are_within(low_, high_) ? Seen::all : Seen::some;
  }

 private:
  int64_t low_, high_;
};

// Positions in parts of `size`: a query sees the keys of its own part and of `beside` parts on each side.
class EqualParts : public MaskRule {
 public:
  EqualParts(int64_t size, int64_t beside) : size_(size), beside_(beside) {}
  uint64_t row(int64_t query, int64_t first_key) const override {
    const int64_t part = query / size_;
    return keys_between((part - beside_) * size_, (part + beside_ + 1) * size_, first_key);
  }
  Seen block(const PairBlock& block) const override {
    const int64_t query = block.query / size_, last_query = (block.query + block.queries - 1) / size_;
    const int64_t key = block.key / size_, last_key = (block.key + block.keys - 1) / size_;
    const Differences differences({query, last_query - query + 1, key, last_key - key + 1});
    if (!differences.touch(-beside_, beside_)) return Seen::none;
    return differences.are_within(-beside_, beside_) ? Seen::all : Seen::some;
  }

 private:
  int64_t size_, beside_;
};

}  // namespace athanor::masks::kinds
