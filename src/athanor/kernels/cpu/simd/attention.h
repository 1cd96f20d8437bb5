// kernels/attention.h on vectors: goes over tiles of 64 queries and 64 keys, packed as f32 into scratch.
#pragma once

#include "athanor/kernels/cpu/attention_seen.h"
#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/attention_tiles.h"
#include "athanor/kernels/cpu/simd/pack.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace attention {

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// Allocates parts of the scratch one after the other.
struct Scratch {
  float* next;
  float* take(int64_t floats) {
    float* part = next;
    next += floats;
    return part;
  }
};

template <typename T>
inline void store_rows(T* to, int64_t to_row, const float* from, int64_t from_row, int64_t rows,
                       int64_t width, float factor) {
  for (int64_t r = 0; r < rows; ++r)
    for_vectors(
        width, [&](int64_t i, auto part) __attribute__((always_inline)) {
          store(to + r * to_row + i, load(from + r * from_row + i) * set1(factor), part);
        });
}

inline bool is_finite(const float* x, int64_t n) {
  float total[1];
  sum_vectors(
      n, total, [&](int64_t i, auto part, V* sums) __attribute__((always_inline)) {
        sums[0] = fma(load(x + i, part), zero(), sums[0]);
      });
  return total[0] == 0;
}

// A value is multiplied by zero for the queries that do not see it, which hides it only if it is finite. So a value
// that is not finite becomes zero and its key NaN: the score of a key that is not seen does not count.
inline void guard(float* keys_t, float* values, int64_t keys, int64_t row, int64_t head_dim) {
  if (is_finite(values, keys * row)) return;
  for (int64_t key = 0; key < keys; ++key) {
    if (is_finite(values + key * row, row)) continue;
    for (int64_t i = 0; i < row; ++i) values[key * row + i] = 0;
    for (int64_t i = 0; i < head_dim; ++i) keys_t[i * kTile + key] = __builtin_nanf("");
  }
}

// What the queries of a tile see of its keys; without queries if it is nothing. `seen` is memory for bits [64].
inline TileShape shape_of(const AttentionProblem& problem, const AttentionTile& tile, uint64_t* seen) {
  TileShape shape = {.queries = tile.queries,
                     .keys = tile.keys,
                     .head_dim = problem.head_dim,
                     .value_dim = problem.value_dim,
                     .row = padded(problem.head_dim),
                     .diagonal = tile.query + 1 + problem.offset - tile.key,
                     .value_row = padded(problem.value_dim),
                     .terms = problem.terms.any() ? &problem.terms : nullptr,
                     .query = tile.query,
                     .key = tile.key};
  if (!problem.hides()) return shape;
  shape.diagonal = tile.keys;
  switch (seen_rows(problem, tile, seen)) {
    case Seen::none:
      shape.queries = 0;
      break;
    case Seen::some:
      shape.rows = seen;
      break;
    case Seen::all:
      break;
  }
  return shape;
}

template <typename T>
void forward(void* o, float* lse, const void* q, const void* k, const void* v,
             const AttentionProblem& problem, int64_t q_first, int64_t q_count, float* scratch) {
  const int64_t width = problem.head_dim, q_stride = problem.q_stride, kv_stride = problem.kv_stride;
  const int64_t value_dim = problem.value_dim, v_stride = problem.v_stride;
  const int64_t row = padded(width), value_row = padded(value_dim);
  Scratch memory{scratch};
  float* const queries = memory.take(kTile * row);
  float* const keys_t = memory.take(kTile * row);
  float* const values = memory.take(kTile * value_row);
  const ForwardTile tile = {.q = queries,
                            .keys_t = keys_t,
                            .values = values,
                            .scores = memory.take(kTile * kTile),
                            .sum = memory.take(kTile * value_row),
                            .totals = memory.take(kTile * kLanes),
                            .largest = memory.take(kTile)};
  for (int64_t t = q_first; t < q_first + q_count; t += kTile) {
    const int64_t count = smaller(kTile, q_first + q_count - t);
    pack_rows(queries, row, static_cast<const T*>(q) + t * q_stride, q_stride, count, width, problem.scale);
    if (problem.hides()) start_rows(tile, value_row);
    for (int64_t block = 0; (block = next_seen_block(problem, t, count, block)) >= 0; ++block) {
      const int64_t s = block * kTile, keys = smaller(kTile, problem.keys - s);
      uint64_t seen[kTile];
      const TileShape shape = shape_of(problem, {t, count, s, keys}, seen);
      if (shape.queries == 0) continue;
      pack_transposed(keys_t, kTile, static_cast<const T*>(k) + s * kv_stride, kv_stride, keys, width);
      pack_rows(values, value_row, static_cast<const T*>(v) + s * v_stride, v_stride, keys, value_dim, 1.f);
      if (shape.rows != nullptr || shape.visible(0) < keys) guard(keys_t, values, keys, value_row, width);
      attend(tile, shape, s == 0 && !problem.hides());
    }
    const TileShape all = {.queries = count,
                           .keys = 0,
                           .head_dim = width,
                           .value_dim = value_dim,
                           .row = row,
                           .diagonal = 0,
                           .value_row = value_row};
    finish_rows(tile, all, problem.hides(), lse + t);
    store_rows(static_cast<T*>(o) + t * problem.o_stride, problem.o_stride, tile.sum, value_row, count,
               value_dim, 1.f);
  }
}

template <typename T>
void row_deltas(float* delta, int64_t stride, const void* d_o, const void* o, int64_t heads,
                int64_t head_dim) {
  for (int64_t head = 0; head < heads; ++head) {
    const T* d_out = static_cast<const T*>(d_o) + head * head_dim;
    const T* out = static_cast<const T*>(o) + head * head_dim;
    float total[1];
    sum_vectors(
        head_dim, total, [&](int64_t i, auto part, V* sums) __attribute__((always_inline)) {
          sums[0] = fma(load(d_out + i, part), load(out + i, part), sums[0]);
        });
    delta[head * stride] = total[0];
  }
}

inline void clear(float* x, int64_t n) {
  __builtin_memset(x, 0, static_cast<size_t>(n) * sizeof(float));
}

// Sums are [rows of a block, padded(D)], of dv padded(E); those of dq are not yet multiplied by the scale. Key tiles outside,
// query tiles inside: a key tile is packed once.
template <typename T>
void backward(const AttentionGradients& g, const AttentionProblem& problem, const AttentionPair& pair,
              float* scratch) {
  const int64_t width = problem.head_dim, q_stride = problem.q_stride, kv_stride = problem.kv_stride;
  const int64_t value_dim = problem.value_dim, v_stride = problem.v_stride, o_stride = problem.o_stride;
  const float scale = problem.scale;
  const int64_t row = padded(width), value_row = padded(value_dim);
  Scratch memory{scratch};
  float* const queries = memory.take(kTile * row);
  float* const d_out = memory.take(kTile * value_row);
  float* const keys_t = memory.take(kTile * row);
  float* const keys = memory.take(kTile * row);
  float* const values_t = memory.take(kTile * value_row);
  float* const scores = memory.take(kTile * kTile);
  float* const d_scores = memory.take(kTile * kTile);
  const int64_t first_query = pair.query * kAttentionBlock, first_key = pair.key * kAttentionBlock;
  const int64_t end_query = smaller(problem.queries, first_query + kAttentionBlock);
  const int64_t end_key = smaller(problem.keys, first_key + kAttentionBlock);
  if (pair.starts_dq) clear(g.dq_sums, (end_query - first_query) * row);
  if (pair.starts_dkv) clear(g.dk_sums, (end_key - first_key) * row);
  if (pair.starts_dkv) clear(g.dv_sums, (end_key - first_key) * value_row);

  for (int64_t s = (end_key - 1) / kTile * kTile; s >= first_key; s -= kTile) {
    const int64_t key_count = smaller(kTile, end_key - s);
    const T* k = static_cast<const T*>(g.k) + s * kv_stride;
    const T* v = static_cast<const T*>(g.v) + s * v_stride;
    pack_transposed(keys_t, kTile, k, kv_stride, key_count, width);
    pack_transposed(values_t, kTile, v, v_stride, key_count, value_dim);
    pack_rows(keys, row, k, kv_stride, key_count, width, 1.f);
    float* const dk_sum = g.dk_sums + (s - first_key) * row;
    float* const dv_sum = g.dv_sums + (s - first_key) * value_row;
    const int64_t first_to_see = s - problem.offset;  // causal: blocks and tiles begin at the same positions
    for (int64_t t = first_to_see > first_query ? first_to_see : first_query; t < end_query; t += kTile) {
      const int64_t count = smaller(kTile, end_query - t);
      uint64_t seen[kTile];
      const TileShape shape = shape_of(problem, {t, count, s, key_count}, seen);
      if (shape.queries == 0) continue;
      pack_rows(queries, row, static_cast<const T*>(g.q) + t * q_stride, q_stride, count, width, scale);
      pack_rows(d_out, value_row, static_cast<const T*>(g.d_o) + t * o_stride, o_stride, count, value_dim,
                1.f);
      attend_backward({.q = queries,
                       .d_out = d_out,
                       .keys_t = keys_t,
                       .keys = keys,
                       .values_t = values_t,
                       .lse = g.lse + t,
                       .delta = g.delta + t,
                       .scores = scores,
                       .d_scores = d_scores,
                       .dq = g.dq_sums + (t - first_query) * row,
                       .dk = dk_sum,
                       .dv = dv_sum,
                       .bias_sums = g.bias_sums},
                      shape);
    }
    if (!pair.ends_dkv) continue;
    store_rows(static_cast<T*>(g.dk) + s * kv_stride, kv_stride, dk_sum, row, key_count, width, 1.f);
    store_rows(static_cast<T*>(g.dv) + s * v_stride, v_stride, dv_sum, value_row, key_count, value_dim, 1.f);
  }
  if (pair.ends_dq)
    store_rows(static_cast<T*>(g.dq) + first_query * q_stride, q_stride, g.dq_sums, row,
               end_query - first_query, width, scale);
}

template <typename T>
inline void combine_rows(T* to, int64_t to_row, const float* sums, int64_t rows, int64_t width, int64_t group,
                         int64_t stride) {
  const int64_t row = padded(width);
  for (int64_t r = 0; r < rows; ++r)
    for_vectors(
        width, [&](int64_t i, auto part) __attribute__((always_inline)) {
          V total = load(sums + r * row + i);
          for (int64_t head = 1; head < group; ++head)
            total = total + load(sums + head * stride + r * row + i);
          store(to + r * to_row + i, total, part);
        });
}

template <typename T>
void combine(const AttentionGradients& g, const AttentionProblem& problem, int64_t key, int64_t group,
             int64_t stride) {
  const int64_t s = key * kAttentionBlock, rows = smaller(kAttentionBlock, problem.keys - s);
  combine_rows(static_cast<T*>(g.dk) + s * problem.kv_stride, problem.kv_stride, g.dk_sums, rows,
               problem.head_dim, group, stride);
  combine_rows(static_cast<T*>(g.dv) + s * problem.v_stride, problem.v_stride, g.dv_sums, rows,
               problem.value_dim, group, stride);
}

inline int64_t forward_floats(int64_t head_dim, int64_t) {
  return kTile * (4 * padded(head_dim) + kTile + kLanes + 1);
}
inline int64_t backward_floats(int64_t head_dim, int64_t) {
  return kTile * (5 * padded(head_dim) + 2 * kTile);
}
inline int64_t sum_floats(int64_t head_dim) {
  return kAttentionBlock * padded(head_dim);
}

template <typename T>
constexpr AttentionRows rows = {forward<T>, forward_floats,  row_deltas<T>, backward<T>,
                                combine<T>, backward_floats, sum_floats,    true};

}  // namespace attention
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
