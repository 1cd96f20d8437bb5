// Copies of small matrices as f32, padded with zeros to whole vectors.
#pragma once

#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::kernels::ATHANOR_ISA {
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

inline int64_t lanes_of(Full, int64_t) {
  return kLanes;
}
inline int64_t lanes_of(Tail, int64_t left) {
  return left;
}

// to[j][i] = from[i][j], i < padded(rows).
template <typename T>
inline void pack_transposed(float* to, int64_t to_row, const T* from, int64_t from_row, int64_t rows,
                            int64_t width) {
  for (int64_t i = 0; i < padded(rows); i += kTransposedRows) {
    for_vectors(
        width, [&](int64_t j, auto part) __attribute__((always_inline)) {
          V block[kTransposedRows];
          for (int64_t row = 0; row < kTransposedRows; ++row)
            block[row] = i + row < rows ? load(from + (i + row) * from_row + j, part) : zero();
          store_transposed(to + j * to_row + i, to_row, block, lanes_of(part, width - j));
        });
  }
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
