// Copies of small matrices as f32, padded with zeros to whole vectors.
#pragma once

#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::ATHANOR_ISA {
namespace {

inline int64_t padded(int64_t n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

// to[i][j] = factor * from[i][j], j < padded(width).
template <typename T>
inline void pack_rows(float* to, int64_t to_row, const T* from, int64_t from_row, int64_t rows, int64_t width,
                      float factor) {
  for (int64_t i = 0; i < rows; ++i) {
    float* out = to + i * to_row;
    const T* in = from + i * from_row;
    for_vectors(
        width, [&](int64_t j, auto part)
                   __attribute__((always_inline)) { store(out + j, load(in + j, part) * set1(factor)); });
  }
}

// in[i] lane j becomes in[j] lane i.
[[gnu::always_inline]] inline void transpose(VI (&in)[16]) {
  VI quads[4][4];  // of each group of four rows: row j of quads[g] has column 4 L + j in its quad L
  for (int g = 0; g < 4; ++g) {
    const VI four[4] = {in[4 * g], in[4 * g + 1], in[4 * g + 2], in[4 * g + 3]};
    transpose_quads(four, quads[g]);
  }
  for (int j = 0; j < 4; ++j) {
    const VI four[4] = {quads[0][j], quads[1][j], quads[2][j], quads[3][j]};
    VI columns[4];
    transpose_lanes(four, columns);
    for (int quad = 0; quad < 4; ++quad) in[4 * quad + j] = columns[quad];
  }
}

// to[j][i] = from[i][j], i < padded(rows).
template <typename T>
inline void pack_transposed(float* to, int64_t to_row, const T* from, int64_t from_row, int64_t rows,
                            int64_t width) {
  for (int64_t i = 0; i < rows; i += kLanes) {
    const int64_t count = rows - i < kLanes ? rows - i : kLanes;
    for_vectors(width, [&](int64_t j, auto part) {
      VI block[16];
      for (int64_t row = 0; row < kLanes; ++row)
        block[row] = row < count ? bits_of(load(from + (i + row) * from_row + j, part)) : set1i(0);
      transpose(block);
      const int64_t columns = width - j < kLanes ? width - j : kLanes;
      for (int64_t column = 0; column < columns; ++column)
        store(to + (j + column) * to_row + i, float_of(block[column]));
    });
  }
}

}  // namespace
}  // namespace athanor::ATHANOR_ISA
