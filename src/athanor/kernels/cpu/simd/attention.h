// kernels/attention.h on vectors: walks over tiles of 64 queries and 64 keys, packed as f32 into scratch.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/attention_tiles.h"
#include "athanor/kernels/cpu/simd/pack.h"

namespace athanor::ATHANOR_ISA {
namespace {
namespace attention {

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// Hands out parts of the scratch in turn.
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

template <typename T>
void forward(void* o, float* lse, const void* q, const void* k, const void* v,
             const AttentionProblem& problem, int64_t q_first, int64_t q_count, float* scratch) {
  const auto [all_queries, all_keys, width, q_stride, kv_stride, scale] = problem;
  const int64_t row = padded(width);
  Scratch memory{scratch};
  float* const queries = memory.take(kTile * row);
  float* const keys_t = memory.take(kTile * row);
  float* const values = memory.take(kTile * row);
  const ForwardTile tile = {.q = queries,
                            .keys_t = keys_t,
                            .values = values,
                            .scores = memory.take(kTile * kTile),
                            .sum = memory.take(kTile * row),
                            .totals = memory.take(kTile * kLanes),
                            .largest = memory.take(kTile)};
  for (int64_t t = q_first; t < q_first + q_count; t += kTile) {
    const int64_t count = smaller(kTile, q_first + q_count - t);
    const int64_t seen = t + 1 + all_keys - all_queries;  // by the first query
    pack_rows(queries, row, static_cast<const T*>(q) + t * q_stride, q_stride, count, width, scale);
    for (int64_t s = 0; s < seen + count - 1; s += kTile) {
      const int64_t keys = smaller(kTile, all_keys - s);
      const TileShape shape = {
          .queries = count, .keys = keys, .head_dim = width, .row = row, .diagonal = seen - s};
      pack_transposed(keys_t, kTile, static_cast<const T*>(k) + s * kv_stride, kv_stride, keys, width);
      pack_rows(values, row, static_cast<const T*>(v) + s * kv_stride, kv_stride, keys, width, 1.f);
      attend(tile, shape, s == 0);
    }
    finish_rows(tile, {.queries = count, .keys = 0, .head_dim = width, .row = row, .diagonal = 0}, lse + t);
    store_rows(static_cast<T*>(o) + t * q_stride, q_stride, tile.sum, row, count, width, 1.f);
  }
}

// delta [T] = sum over D of d_o * o.
template <typename T>
inline void row_products(float* delta, const T* d_o, const T* o, int64_t rows, int64_t stride,
                         int64_t width) {
  for (int64_t t = 0; t < rows; ++t) {
    float total[1];
    sum_vectors(
        width, total, [&](int64_t i, auto part, V* sums) __attribute__((always_inline)) {
          sums[0] = fma(load(d_o + t * stride + i, part), load(o + t * stride + i, part), sums[0]);
        });
    delta[t] = total[0];
  }
}

inline void clear(float* x, int64_t n) {
  __builtin_memset(x, 0, static_cast<size_t>(n) * sizeof(float));
}

// Key tiles outside, query tiles inside: a key tile is packed once and its dk and dv are done when it ends;
// dq of all queries waits in scratch.
template <typename T>
void backward(void* dq, void* dk, void* dv, const void* d_o, const void* o, const float* lse, const void* q,
              const void* k, const void* v, const AttentionProblem& problem, int64_t group, float* scratch) {
  const auto [length, all_keys, width, q_stride, kv_stride, scale] = problem;
  const int64_t row = padded(width);
  Scratch memory{scratch};
  float* const queries = memory.take(kTile * row);
  float* const d_out = memory.take(kTile * row);
  float* const keys_t = memory.take(kTile * row);
  float* const keys = memory.take(kTile * row);
  float* const values_t = memory.take(kTile * row);
  float* const dk_sum = memory.take(kTile * row);
  float* const dv_sum = memory.take(kTile * row);
  float* const scores = memory.take(kTile * kTile);
  float* const d_scores = memory.take(kTile * kTile);
  float* const dq_sum = memory.take(group * length * row);
  float* const delta = memory.take(group * length);
  clear(dq_sum, group * length * row);
  for (int64_t head = 0; head < group; ++head)
    row_products(delta + head * length, static_cast<const T*>(d_o) + head * width,
                 static_cast<const T*>(o) + head * width, length, q_stride, width);

  for (int64_t s = 0; s < all_keys; s += kTile) {
    const int64_t key_count = smaller(kTile, all_keys - s);
    pack_transposed(keys_t, kTile, static_cast<const T*>(k) + s * kv_stride, kv_stride, key_count, width);
    pack_transposed(values_t, kTile, static_cast<const T*>(v) + s * kv_stride, kv_stride, key_count, width);
    pack_rows(keys, row, static_cast<const T*>(k) + s * kv_stride, kv_stride, key_count, width, 1.f);
    clear(dk_sum, kTile * row);
    clear(dv_sum, kTile * row);
    for (int64_t head = 0; head < group; ++head) {
      for (int64_t t = s; t < length; t += kTile) {
        const int64_t count = smaller(kTile, length - t), first = t * q_stride + head * width;
        pack_rows(queries, row, static_cast<const T*>(q) + first, q_stride, count, width, scale);
        pack_rows(d_out, row, static_cast<const T*>(d_o) + first, q_stride, count, width, 1.f);
        const TileShape shape = {
            .queries = count, .keys = key_count, .head_dim = width, .row = row, .diagonal = t + 1 - s};
        attend_backward({.q = queries,
                         .d_out = d_out,
                         .keys_t = keys_t,
                         .keys = keys,
                         .values_t = values_t,
                         .lse = lse + head * length + t,
                         .delta = delta + head * length + t,
                         .scores = scores,
                         .d_scores = d_scores,
                         .dq = dq_sum + (head * length + t) * row,
                         .dk = dk_sum,
                         .dv = dv_sum},
                        shape);
      }
    }
    store_rows(static_cast<T*>(dk) + s * kv_stride, kv_stride, dk_sum, row, key_count, width, 1.f);
    store_rows(static_cast<T*>(dv) + s * kv_stride, kv_stride, dv_sum, row, key_count, width, 1.f);
  }
  for (int64_t head = 0; head < group; ++head)
    store_rows(static_cast<T*>(dq) + head * width, q_stride, dq_sum + head * length * row, row, length, width,
               scale);
}

inline int64_t scratch_floats(const AttentionProblem& problem, int64_t group) {
  const int64_t row = padded(problem.head_dim);
  const int64_t for_forward = kTile * (4 * row + kTile + kLanes + 1);
  const int64_t for_backward = kTile * (7 * row + 2 * kTile) + group * problem.queries * (row + 1);
  return for_forward > for_backward ? for_forward : for_backward;
}

template <typename T>
constexpr AttentionRows rows = {forward<T>, backward<T>, scratch_floats};

}  // namespace attention
}  // namespace
}  // namespace athanor::ATHANOR_ISA
