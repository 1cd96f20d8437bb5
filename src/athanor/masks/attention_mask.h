// Which queries attend to which keys, as data: for each block of 64 queries the list of the blocks of 64 keys that it sees,
// in full or in part. Kernels skip blocks that are not listed, and look at single pairs only where a block is seen in part;
// context parallelism, plans and pictures read the same lists.
//
//   const AttentionMask mask = make_mask({.queries = {{0, 4096}}, .keys = {{0, 4096}}}, {&rule}, /*rule_of_head=*/{0, 0});
//   for (const AttentionMask::Block& block : mask.keys_of(mask.rule_of(/*head=*/1), /*query_block=*/7)) { ... }
//   mask.figures(0).pairs;                               // (query, key) pairs that a head of rule 0 sees
//
// Blocks of one head that see the same pairs share their bits: a band of any length has three. Positions are runs, so a rank
// that holds two pieces of a sequence has the mask of its pieces; block b is then queries 64 b ... 64 b + 63 of those it holds.
// Source: block lists in full and in part as in FlexAttention (Dong et al., 2024); bits instead of a function of a pair.
//
// Errors: Error for positions or heads that do not fit. Thread rule: a value; reading is free of locks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "athanor/masks/seen.h"

namespace athanor::masks {

// Pairs [query, query + queries) x [key, key + keys) of positions.
struct PairBlock {
  int64_t query = 0, queries = 0, key = 0, keys = 0;
};

// Who sees whom among the positions of a sequence. One class per kind of pattern.
class MaskRule {
 public:
  virtual ~MaskRule() = default;
  // Bit j: the query at position `query` sees the key at position first_key + j. Positions past the end may be seen.
  virtual uint64_t row(int64_t query, int64_t first_key) const = 0;
  // How much of a block is seen. `some` is never wrong: its rows are then looked at.
  virtual Seen block(const PairBlock&) const { return Seen::some; }
};

// `count` positions from `first` on.
struct PositionRun {
  int64_t first = 0, count = 0;
  bool operator==(const PositionRun&) const = default;
};

class AttentionMask {
 public:
  static constexpr int64_t kBlock = 64;  // queries, and keys, of a block
  static constexpr int64_t kWide = 256;  // of the wide blocks that backward passes work on
  static constexpr int32_t kFull = -1;

  struct Block {
    int32_t block = 0;     // index, of keys in keys_of()
    int32_t bits = kFull;  // index for bits(), or kFull
  };
  struct Bits {
    uint64_t rows[kBlock], columns[kBlock];  // bit j of rows[i], and bit i of columns[j]: query i sees key j
  };
  struct Figures {
    int64_t pairs = 0, full_blocks = 0, partial_blocks = 0;
    int64_t queries_without_keys = 0, first_without_keys = -1;
  };

  int64_t queries() const { return queries_; }
  int64_t keys() const { return keys_; }
  int64_t heads() const { return static_cast<int64_t>(rule_of_head_.size()); }
  int64_t rules() const { return static_cast<int64_t>(rules_.size()); }
  int64_t rule_of(int64_t head) const { return rule_of_head_[static_cast<size_t>(head)]; }
  int64_t query_blocks() const { return (queries_ + kBlock - 1) / kBlock; }
  int64_t key_blocks() const { return (keys_ + kBlock - 1) / kBlock; }

  // Ascending.
  std::span<const Block> keys_of(int64_t rule, int64_t query_block) const;
  // The same list from the first block of keys that is `from` or comes after it.
  std::span<const Block> keys_of(int64_t rule, int64_t query_block, int64_t from) const;
  Seen seen(int64_t rule, int64_t query_block, int64_t key_block, const Bits** bits) const;
  // Whether any query of a wide block sees any key of another one.
  bool wide_pair(int64_t rule, int64_t query, int64_t key) const {
    const Rule& of = rules_[static_cast<size_t>(rule)];
    return of.wide[static_cast<size_t>(query * wide_keys_ + key)] != 0;
  }
  const Bits& bits(int32_t index) const { return bits_[static_cast<size_t>(index)]; }
  const Figures& figures(int64_t rule) const { return rules_[static_cast<size_t>(rule)].figures; }
  int64_t pairs_of_all_heads() const;
  int64_t bytes() const;  // that it takes in memory

 private:
  friend class MaskMaker;
  struct Rule {
    std::vector<int32_t> first;  // [query_blocks + 1] into blocks
    std::vector<Block> blocks;
    std::vector<uint8_t> wide;  // [wide blocks of queries, of keys]
    Figures figures;
  };
  int64_t queries_ = 0, keys_ = 0, wide_keys_ = 0;
  std::vector<int32_t> rule_of_head_;
  std::vector<Rule> rules_;
  std::vector<Bits> bits_;
};

struct MaskPositions {
  std::vector<PositionRun> queries, keys;
  bool operator==(const MaskPositions&) const = default;
};
AttentionMask make_mask(const MaskPositions& positions, const std::vector<const MaskRule*>& rules,
                        const std::vector<int32_t>& rule_of_head);

}  // namespace athanor::masks
