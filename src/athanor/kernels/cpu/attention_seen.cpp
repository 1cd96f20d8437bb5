#include "athanor/kernels/cpu/attention_seen.h"

#include <algorithm>

#include "athanor/masks/attention_mask.h"

namespace athanor::kernels {
namespace {

constexpr int64_t kBlock = AttentionMask::kBlock;
static_assert(kSeenBlock == kBlock && kAttentionBlock == AttentionMask::kWide);

uint64_t first_bits(int64_t count) {
  return count >= kBlock ? ~uint64_t{0} : count <= 0 ? 0 : (uint64_t{1} << count) - 1;
}

// Bits [first, end) of a word.
uint64_t bits_between(int64_t first, int64_t end) {
  return first_bits(end) & ~first_bits(first);
}

// Of the intervals alone: both of their ends rise with the query.
Seen seen_by_intervals(const AttentionProblem& problem, const AttentionTile& tile) {
  const int64_t last = tile.query + tile.queries - 1, end = tile.key + tile.keys;
  if (problem.first_key(tile.query) >= end || problem.end_key(last) <= tile.key) return Seen::none;
  return problem.first_key(last) <= tile.key && problem.end_key(tile.query) >= end ? Seen::all : Seen::some;
}

Seen seen_by_mask(const AttentionProblem& problem, const AttentionTile& tile,
                  const AttentionMask::Bits** bits) {
  if (problem.mask == nullptr) return Seen::all;
  return problem.mask->seen(problem.mask_rule, tile.query / kBlock, tile.key / kBlock, bits);
}

uint64_t interval_of(const AttentionProblem& problem, const AttentionTile& tile, int64_t query) {
  return bits_between(problem.first_key(query) - tile.key,
                      std::min(problem.end_key(query) - tile.key, tile.keys));
}

}  // namespace

Seen seen_rows(const AttentionProblem& problem, const AttentionTile& tile, uint64_t* rows) {
  const AttentionMask::Bits* bits = nullptr;
  const Seen mask = seen_by_mask(problem, tile, &bits);
  if (mask == Seen::none) return mask;
  const Seen intervals = seen_by_intervals(problem, tile);
  if (intervals == Seen::none || (intervals == Seen::all && mask == Seen::all)) return intervals;
  uint64_t any = 0;
  for (int64_t i = 0; i < tile.queries; ++i) {
    rows[i] = interval_of(problem, tile, tile.query + i);
    if (bits != nullptr) rows[i] &= bits->rows[tile.query % kBlock + i];
    any |= rows[i];
  }
  return any == 0 ? Seen::none : Seen::some;
}

Seen seen_columns(const AttentionProblem& problem, const AttentionTile& tile, uint64_t* columns) {
  const AttentionMask::Bits* bits = nullptr;
  const Seen mask = seen_by_mask(problem, tile, &bits);
  if (mask == Seen::none) return mask;
  const Seen intervals = seen_by_intervals(problem, tile);
  if (intervals == Seen::none || (intervals == Seen::all && mask == Seen::all)) return intervals;
  const uint64_t queries = first_bits(tile.queries);
  for (int64_t j = 0; j < tile.keys; ++j)
    columns[j] = bits == nullptr ? queries : (bits->columns[j] >> (tile.query % kBlock)) & queries;
  uint64_t any = 0;
  if (intervals == Seen::some) {
    // Both ends rise, so those who see a key are the queries between the last that has not reached it and the first that
    // has left it behind.
    for (int64_t j = 0, reached = 0, left = 0; j < tile.keys; ++j) {
      const int64_t key = tile.key + j;
      while (reached < tile.queries && problem.end_key(tile.query + reached) <= key) ++reached;
      while (left < tile.queries && problem.first_key(tile.query + left) <= key) ++left;
      columns[j] &= bits_between(reached, left);
    }
  }
  for (int64_t j = 0; j < tile.keys; ++j) any |= columns[j];
  return any == 0 ? Seen::none : Seen::some;
}

bool may_see(const AttentionProblem& problem, const AttentionTile& tile) {
  const AttentionMask::Bits* bits = nullptr;
  return seen_by_intervals(problem, tile) != Seen::none && seen_by_mask(problem, tile, &bits) != Seen::none;
}

int64_t next_seen_block(const AttentionProblem& problem, int64_t query, int64_t queries, int64_t block) {
  const int64_t first = std::max(block, problem.first_key(query) / kBlock);
  const int64_t end = (problem.end_key(query + queries - 1) + kBlock - 1) / kBlock;
  if (first >= end) return -1;
  if (problem.mask == nullptr) return first;
  const auto listed = problem.mask->keys_of(problem.mask_rule, query / kBlock, first);
  return listed.empty() || listed.front().block >= end ? -1 : listed.front().block;
}

}  // namespace athanor::kernels
