// Attention on one tile of 64 queries and one of 64 keys, in f32 (FlashAttention-2; Dao, 2023). attention.h packs the
// tiles and goes over them.
//
// Packed tiles: q is multiplied by the scale; keys_t and values_t are [D, 64]. Rows of [.., D] buffers are `row` floats
// apart, whole vectors, and padded with zeros; those of values, d_out, sum and dv are `value_row` floats apart. Query r of the tile sees the first visible(r) = min(keys, diagonal + r)
// keys of the tile (none if that is negative); or, where `rows` is set, key j if bit j of rows[r] is set.
#pragma once

#include <cstdint>

#include "athanor/kernels/cpu/attention_rows.h"

namespace athanor::kernels::ATHANOR_ISA {

inline constexpr int64_t kTile = 64;

struct TileShape {
  int64_t queries, keys;  // of this tile, up to 64
  int64_t head_dim, value_dim;
  int64_t row;  // head_dim rounded up to whole vectors
  int64_t diagonal;
  int64_t value_row;
  const uint64_t* rows = nullptr;         // [queries], or null
  const AttentionTerms* terms = nullptr;  // of the scores; null: none
  int64_t query = 0, key = 0;             // of the head: the first of the tile
  constexpr int64_t visible(int64_t r) const { return diagonal + r < keys ? diagonal + r : keys; }
};

struct ForwardTile {
  const float *q, *keys_t, *values;  // [64, D], [D, 64], [64, D]
  float* scores;                     // [64, 64]
  float* sum;                        // [64, D] sum of exp(score - largest) * value
  float* totals;                     // [64, 16] sum of exp(score - largest), in lanes
  float* largest;                    // [64]
};
// Sets the state of "no keys seen", for queries that may see nothing of their first tile.
void start_rows(const ForwardTile& tile, int64_t row);
// Online softmax over one more tile of keys; with `first` it starts the sums.
void attend(const ForwardTile& tile, const TileShape& shape, bool first);
// sum /= total; lse = largest + log(total). For a query that saw no key, where such may be: 0 and -infinity.
void finish_rows(const ForwardTile& tile, const TileShape& shape, bool may_see_none, float* lse);

struct BackwardTile {
  const float *q, *d_out;                 // [64, D]
  const float *keys_t, *keys, *values_t;  // [D, 64], [64, D], [D, 64]
  const float *lse, *delta;               // [64]
  float *scores, *d_scores;               // [64, 64]
  float *dq, *dk, *dv;                    // [64, D], added to; dq is not yet multiplied by the scale
  double* bias_sums;                      // AttentionGradients
};
void attend_backward(const BackwardTile& tile, const TileShape& shape);

}  // namespace athanor::kernels::ATHANOR_ISA
