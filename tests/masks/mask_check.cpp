#include "masks/mask_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace athanor::tests::masks {
namespace {

// What stands in a block of the mask, found pair by pair.
struct Expected {
  int64_t pairs = 0, all = 0;
  Seen seen() const { return pairs == 0 ? Seen::none : pairs == all ? Seen::all : Seen::some; }
};

class Comparison {
 public:
  Comparison(const AttentionMask& mask, int64_t rule, const MaskPositions& positions, const Pairs& pairs)
      : mask_(mask),
        rule_(rule),
        queries_(positions_of(positions.queries)),
        keys_(positions_of(positions.keys)),
        pairs_(pairs) {}

  std::string run() {
    const auto num_queries = static_cast<int64_t>(queries_.size()),
               num_keys = static_cast<int64_t>(keys_.size());
    if (mask_.queries() != num_queries || mask_.keys() != num_keys) return "size";
    for (int64_t query = 0; query < mask_.query_blocks(); ++query) {
      std::vector<int64_t> listed;
      for (int64_t key = 0; key < mask_.key_blocks(); ++key) {
        const Expected expected = count(query, key);
        if (expected.seen() != Seen::none) listed.push_back(key);
        std::string wrong = compare(query, key, expected);
        if (!wrong.empty()) return wrong;
      }
      std::vector<int64_t> got;
      for (const AttentionMask::Block& block : mask_.keys_of(rule_, query)) got.push_back(block.block);
      if (got != listed) return fmt::format("the list of block {}", query);
      for (int64_t from = 0; from <= mask_.key_blocks(); ++from) {
        const auto expected =
            std::count_if(listed.begin(), listed.end(), [&](int64_t key) { return key >= from; });
        if (static_cast<int64_t>(mask_.keys_of(rule_, query, from).size()) != expected)
          return fmt::format("the list of block {} from {} on", query, from);
      }
    }
    return figures();
  }

 private:
  bool sees(int64_t query, int64_t key) const {
    return pairs_(queries_[static_cast<size_t>(query)], keys_[static_cast<size_t>(key)]);
  }
  static std::pair<int64_t, int64_t> part(int64_t block, int64_t size, int64_t end) {
    return {block * size, std::min((block + 1) * size, end)};
  }

  Expected count(int64_t query, int64_t key) const {
    Expected found;
    const auto [first_query, end_query] = part(query, 64, mask_.queries());
    const auto [first_key, end_key] = part(key, 64, mask_.keys());
    for (int64_t i = first_query; i < end_query; ++i)
      for (int64_t j = first_key; j < end_key; ++j, ++found.all) found.pairs += sees(i, j) ? 1 : 0;
    return found;
  }

  std::string compare(int64_t query, int64_t key, const Expected& expected) {
    pairs_seen_ += expected.pairs;
    (expected.seen() == Seen::all ? full_ : partial_) += expected.seen() == Seen::none ? 0 : 1;
    const AttentionMask::Bits* bits = nullptr;
    const Seen seen = mask_.seen(rule_, query, key, &bits);
    if (seen != expected.seen()) return fmt::format("the class of block {},{}", query, key);
    if (!mask_.wide_pair(rule_, query / 4, key / 4) && expected.pairs > 0)
      return fmt::format("wide block of {},{}", query, key);
    if (seen != Seen::some) return "";
    for (int64_t i = 0; i < 64; ++i)
      for (int64_t j = 0; j < 64; ++j) {
        const int64_t at_query = query * 64 + i, at_key = key * 64 + j;
        const bool expected_bit =
            at_query < mask_.queries() && at_key < mask_.keys() && sees(at_query, at_key);
        if ((bits->rows[i] >> j & 1) != (expected_bit ? 1 : 0))
          return fmt::format("row bit of pair {},{}", at_query, at_key);
        if ((bits->columns[j] >> i & 1) != (expected_bit ? 1 : 0))
          return fmt::format("column bit of pair {},{}", at_query, at_key);
      }
    return "";
  }

  std::string figures() const {
    int64_t without = 0, first = -1;
    for (int64_t query = 0; query < mask_.queries(); ++query) {
      bool any = false;
      for (int64_t key = 0; key < mask_.keys(); ++key) any = any || sees(query, key);
      if (!any && without++ == 0) first = query;
    }
    const AttentionMask::Figures& got = mask_.figures(rule_);
    if (got.pairs != pairs_seen_) return fmt::format("{} pairs, not {}", got.pairs, pairs_seen_);
    if (got.full_blocks != full_ || got.partial_blocks != partial_) return "the numbers of blocks";
    if (got.queries_without_keys != without || got.first_without_keys != first) return "queries without keys";
    return empty_wide_blocks();
  }

  // A wide block is listed only if some pair of it is seen.
  std::string empty_wide_blocks() const {
    for (int64_t query = 0; query * 256 < mask_.queries(); ++query)
      for (int64_t key = 0; key * 256 < mask_.keys(); ++key) {
        bool any = false;
        const auto [first_query, end_query] = part(query, 256, mask_.queries());
        const auto [first_key, end_key] = part(key, 256, mask_.keys());
        for (int64_t i = first_query; i < end_query; ++i)
          for (int64_t j = first_key; j < end_key; ++j) any = any || sees(i, j);
        if (any != mask_.wide_pair(rule_, query, key)) return fmt::format("wide block {},{}", query, key);
      }
    return "";
  }

  const AttentionMask& mask_;
  int64_t rule_;
  std::vector<int64_t> queries_, keys_;
  const Pairs& pairs_;
  int64_t pairs_seen_ = 0, full_ = 0, partial_ = 0;
};

}  // namespace

std::vector<int64_t> positions_of(const std::vector<PositionRun>& runs) {
  std::vector<int64_t> positions;
  for (const PositionRun& run : runs)
    for (int64_t i = 0; i < run.count; ++i) positions.push_back(run.first + i);
  return positions;
}

std::string difference(const AttentionMask& mask, int64_t rule, const MaskPositions& positions,
                       const Pairs& pairs) {
  return Comparison(mask, rule, positions, pairs).run();
}

}  // namespace athanor::tests::masks
