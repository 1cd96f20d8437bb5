// Rows of a table, by id.
//
//   forward    y[n] = table[ids[n]]  (+ positions[first_position + n % T] if positions is not null)
//   backward   dtable[ids[n]] += dy[n], n ascending;    positions: dpositions[first_position + t] += sum over the
//              batch of dy[b, t], b ascending
//   move_rows  sum[id] += table[id], table[id] = 0, for every id that occurs: all of a table that is zero elsewhere
//
// ids [B,T] i32, each in [0, V) or kNoRow (Error naming id and V otherwise);  table [V,C] T;  positions [P,C] T;
// y, dy [B,T,C] T;  dtable [V,C], dpositions [P,C], sum, table of move_rows [V,C] f32.
// An id of kNoRow stands for a row of zeros that no table has and no gradient reaches: of a table that is cut
// by rows, the ids whose rows lie elsewhere.
#pragma once

#include <cstdint>

namespace athanor {

class Queue;
class Tensor;

constexpr int32_t kNoRow = INT32_MIN;

struct EmbeddingKernels {
  void (*forward)(Queue&, Tensor& y, const Tensor& ids, const Tensor& table, const Tensor* positions,
                  int64_t first_position);
  void (*backward)(Queue&, Tensor& dtable, const Tensor& dy, const Tensor& ids);
  void (*backward_positions)(Queue&, Tensor& dpositions, const Tensor& dy, int64_t first_position);
  void (*move_rows)(Queue&, Tensor& sum, Tensor& table, const Tensor& ids);
};

}  // namespace athanor
