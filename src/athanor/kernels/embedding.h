// Embedding tables: look-up of rows by id, and its gradient.
//
//   forward             y[n] = table[ids[n]]  (+ positions[first_position + n % T] if positions is not null)
//   backward            dtable[ids[n]] += dy[n], n ascending
//   backward_positions  dpositions[first_position + t] += sum over the batch of dy[b, t], b ascending
//   move_rows           sum[id] += table[id], table[id] = 0, for every id that occurs; other rows of `table` are zero
//
// ids [B,T] i32, each in [0, V) or kNoRow (Error naming id and V otherwise);  table [V,C] T;  positions [P,C] T;
// y, dy [B,T,C] T;  dtable [V,C] f32, dpositions [P,C] f32;  sum and table of move_rows [V,C] f32.
// kNoRow reads a row of zeros and has no gradient. A vocabulary-parallel rank uses it for the ids of other ranks' rows.
#pragma once

#include <cstdint>

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

constexpr int32_t kNoRow = INT32_MIN;

struct EmbeddingKernels {
  void (*forward)(Queue&, Tensor& y, const Tensor& ids, const Tensor& table, const Tensor* positions,
                  int64_t first_position);
  void (*backward)(Queue&, Tensor& dtable, const Tensor& dy, const Tensor& ids);
  void (*backward_positions)(Queue&, Tensor& dpositions, const Tensor& dy, int64_t first_position);
  void (*move_rows)(Queue&, Tensor& sum, Tensor& table, const Tensor& ids);
};

}  // namespace athanor::kernels
