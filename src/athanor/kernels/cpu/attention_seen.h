// Which pairs of a tile are seen: the interval of each query (causal, documents, ends) and the mask, put together as bits.
// Generic code that the kernels of all instruction sets call once per tile. Thread rule: pure functions.
#pragma once

#include "athanor/kernels/cpu/attention_rows.h"
#include "athanor/masks/seen.h"

namespace athanor::kernels {

constexpr int64_t kSeenBlock = 64;  // AttentionMask::kBlock

// Queries [query, query + queries) and keys [key, key + keys), of which neither range crosses a multiple of 64.
struct AttentionTile {
  int64_t query, queries, key, keys;
};

// `all` and `none` write no bits. Bits of queries and keys past the ends are not set.
Seen seen_rows(const AttentionProblem& problem, const AttentionTile& tile,
               uint64_t* rows);  // [queries]: of keys
Seen seen_columns(const AttentionProblem& problem, const AttentionTile& tile,
                  uint64_t* columns);  // [keys]: of queries

// Whether any of the queries may see any of the keys; false is certain.
bool may_see(const AttentionProblem& problem, const AttentionTile& tile);

// The first block of 64 keys at or after `block` of which any of these queries may see a key; -1: none.
int64_t next_seen_block(const AttentionProblem& problem, int64_t query, int64_t queries, int64_t block);

}  // namespace athanor::kernels
