#include "athanor/masks/attention_mask.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "athanor/base/check.h"

namespace athanor::masks {
namespace {

constexpr int64_t kBlock = AttentionMask::kBlock;

uint64_t first_bits(int64_t count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

// Exchanges rows and columns of 64 x 64 bits, halves of halves at a time (Hacker's Delight, 7-3).
void transpose(const uint64_t* rows, uint64_t* columns) {
  std::copy(rows, rows + kBlock, columns);
  uint64_t mask = 0xffffffff;
  for (size_t half = 32; half > 0; half /= 2, mask ^= mask << half)
    for (size_t i = 0; i < kBlock; i = (i + half + 1) & ~half) {
      const uint64_t swapped = ((columns[i] >> half) ^ columns[i + half]) & mask;
      columns[i] ^= swapped << half;
      columns[i + half] ^= swapped;
    }
}

// The part of a run that lies in one block.
struct Piece {
  int64_t at = 0, position = 0, count = 0;  // first row of the block, its position, rows
};

std::vector<std::vector<Piece>> blocks_of(const std::vector<PositionRun>& runs) {
  std::vector<std::vector<Piece>> blocks;
  int64_t row = 0;
  for (const PositionRun& run : runs) {
    check(run.first >= 0 && run.count >= 0, "attention mask: got a run of {} positions from {} on", run.count,
          run.first);
    for (int64_t done = 0; done < run.count;) {
      if (row % kBlock == 0) blocks.emplace_back();
      const int64_t count = std::min(run.count - done, kBlock - row % kBlock);
      blocks.back().push_back({row % kBlock, run.first + done, count});
      done += count;
      row += count;
    }
  }
  return blocks;
}

int64_t rows_of(const std::vector<PositionRun>& runs) {
  int64_t rows = 0;
  for (const PositionRun& run : runs) rows += run.count;
  return rows;
}

}  // namespace

class MaskMaker {
 public:
  MaskMaker(const MaskPositions& positions)
      : query_blocks_(blocks_of(positions.queries)), key_blocks_(blocks_of(positions.keys)) {
    mask_.queries_ = rows_of(positions.queries);
    mask_.keys_ = rows_of(positions.keys);
    mask_.wide_keys_ = (mask_.keys_ + AttentionMask::kWide - 1) / AttentionMask::kWide;
  }

  void add(const MaskRule& rule) {
    mask_.rules_.emplace_back();
    AttentionMask::Rule& made = mask_.rules_.back();
    const int64_t wide_queries = (mask_.queries_ + AttentionMask::kWide - 1) / AttentionMask::kWide;
    made.wide.assign(static_cast<size_t>(wide_queries * mask_.wide_keys_), 0);
    made.first.push_back(0);
    for (size_t query = 0; query < query_blocks_.size(); ++query) {
      std::fill(std::begin(any_), std::end(any_), 0);
      for (size_t key = 0; key < key_blocks_.size(); ++key) add_block(rule, made, query, key);
      made.first.push_back(static_cast<int32_t>(made.blocks.size()));
      note_empty_rows(made, static_cast<int64_t>(query));
    }
  }

  AttentionMask finish(const std::vector<int32_t>& rule_of_head) {
    for (const int32_t rule : rule_of_head)
      check(rule >= 0 && rule < mask_.rules(), "attention mask: got rule {} of a head, expected one of {}",
            rule, mask_.rules());
    mask_.rule_of_head_ = rule_of_head;
    return std::move(mask_);
  }

 private:
  int64_t queries_of(size_t block) const {
    return std::min(kBlock, mask_.queries_ - static_cast<int64_t>(block) * kBlock);
  }
  int64_t keys_of(size_t block) const {
    return std::min(kBlock, mask_.keys_ - static_cast<int64_t>(block) * kBlock);
  }

  void add_block(const MaskRule& rule, AttentionMask::Rule& made, size_t query, size_t key) {
    Seen seen = Seen::some;
    if (query_blocks_[query].size() == 1 && key_blocks_[key].size() == 1) {
      const Piece &queries = query_blocks_[query][0], &keys = key_blocks_[key][0];
      seen = rule.block({queries.position, queries.count, keys.position, keys.count});
    }
    if (seen == Seen::none) return;
    AttentionMask::Block block{static_cast<int32_t>(key), AttentionMask::kFull};
    int64_t pairs = queries_of(query) * keys_of(key);
    if (seen == Seen::some) {
      uint64_t rows[kBlock];
      pairs = look(rule, query, key, rows);
      if (pairs == 0) return;
      if (pairs < queries_of(query) * keys_of(key)) block.bits = shared_bits(rows);
    } else {
      for (int64_t i = 0; i < queries_of(query); ++i) any_[i] = ~uint64_t{0};
    }
    made.blocks.push_back(block);
    made.figures.pairs += pairs;
    ++(block.bits == AttentionMask::kFull ? made.figures.full_blocks : made.figures.partial_blocks);
    constexpr size_t kBlocks = AttentionMask::kWide / AttentionMask::kBlock;
    made.wide[query / kBlocks * static_cast<size_t>(mask_.wide_keys_) + key / kBlocks] = 1;
  }

  // The rows of a block, and how many pairs they see.
  int64_t look(const MaskRule& rule, size_t query, size_t key, uint64_t* rows) {
    std::fill(rows, rows + kBlock, 0);
    int64_t pairs = 0;
    for (const Piece& queries : query_blocks_[query])
      for (int64_t i = 0; i < queries.count; ++i) {
        uint64_t& row = rows[queries.at + i];
        for (const Piece& keys : key_blocks_[key])
          row |= (rule.row(queries.position + i, keys.position) & first_bits(keys.count)) << keys.at;
        any_[queries.at + i] |= row;
        pairs += std::popcount(row);
      }
    return pairs;
  }

  int32_t shared_bits(const uint64_t* rows) {
    const std::string_view key(reinterpret_cast<const char*>(rows), kBlock * sizeof(uint64_t));
    const auto [at, added] = known_.try_emplace(std::string(key), static_cast<int32_t>(mask_.bits_.size()));
    if (added) {
      AttentionMask::Bits& bits = mask_.bits_.emplace_back();
      std::copy(rows, rows + kBlock, bits.rows);
      transpose(rows, bits.columns);
    }
    return at->second;
  }

  void note_empty_rows(AttentionMask::Rule& made, int64_t block) const {
    for (int64_t i = 0; i < queries_of(static_cast<size_t>(block)); ++i) {
      if (any_[i] != 0) continue;
      if (made.figures.queries_without_keys++ == 0) made.figures.first_without_keys = block * kBlock + i;
    }
  }

  std::vector<std::vector<Piece>> query_blocks_, key_blocks_;
  AttentionMask mask_;
  std::unordered_map<std::string, int32_t> known_;
  uint64_t any_[kBlock] = {};  // of the keys that each query of the block sees
};

std::span<const AttentionMask::Block> AttentionMask::keys_of(int64_t rule, int64_t query_block) const {
  const Rule& of = rules_[static_cast<size_t>(rule)];
  const auto first = static_cast<size_t>(of.first[static_cast<size_t>(query_block)]);
  return {of.blocks.data() + first,
          static_cast<size_t>(of.first[static_cast<size_t>(query_block) + 1]) - first};
}

std::span<const AttentionMask::Block> AttentionMask::keys_of(int64_t rule, int64_t query_block,
                                                             int64_t from) const {
  const auto all = keys_of(rule, query_block);
  const auto first = std::lower_bound(all.begin(), all.end(), from,
                                      [](const Block& block, int64_t key) { return block.block < key; });
  return all.subspan(static_cast<size_t>(first - all.begin()));
}

Seen AttentionMask::seen(int64_t rule, int64_t query_block, int64_t key_block, const Bits** bits) const {
  const auto found = keys_of(rule, query_block, key_block);
  if (found.empty() || found.front().block != key_block) return Seen::none;
  if (found.front().bits == kFull) return Seen::all;
  *bits = &this->bits(found.front().bits);
  return Seen::some;
}

int64_t AttentionMask::pairs_of_all_heads() const {
  int64_t pairs = 0;
  for (const int32_t rule : rule_of_head_) pairs += figures(rule).pairs;
  return pairs;
}

int64_t AttentionMask::bytes() const {
  size_t bytes = bits_.size() * sizeof(Bits) + rule_of_head_.size() * sizeof(int32_t);
  for (const Rule& rule : rules_)
    bytes += rule.first.size() * sizeof(int32_t) + rule.blocks.size() * sizeof(Block) + rule.wide.size();
  return static_cast<int64_t>(bytes);
}

AttentionMask make_mask(const MaskPositions& positions, const std::vector<const MaskRule*>& rules,
                        const std::vector<int32_t>& rule_of_head) {
  MaskMaker maker(positions);
  for (const MaskRule* rule : rules) maker.add(*rule);
  return maker.finish(rule_of_head);
}

}  // namespace athanor::masks
