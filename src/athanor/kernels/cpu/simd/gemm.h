// The fallback of kernels/gemm.h: any strides and element types, in f32 panels that stay in the cache.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/pack.h"
#include "athanor/kernels/cpu/simd/product.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace gemm {

inline constexpr int64_t kTile = 64, kDepth = 128;

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// to[i][j] = from[i * row + j * col], whichever of the two is contiguous.
template <typename T>
inline void pack(float* to, int64_t to_row, const T* from, int64_t row, int64_t col, int64_t rows,
                 int64_t width) {
  if (col == 1) return pack_rows(to, to_row, from, row, rows, width, 1.f);
  if (row == 1) return pack_transposed(to, to_row, from, col, width, rows);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < padded(width); ++j) {
      const V value = j < width ? load(from + i * row + j * col, Tail{first_lanes(1)}) : zero();
      to[i * to_row + j] = first_lane(value);
    }
  }
}

// c [rows, width] (+)= tile, where c is not a whole number of vectors wide.
inline void write_back(float* c, int64_t c_row, const float* tile, int64_t rows, int64_t width) {
  for (int64_t i = 0; i < rows; ++i)
    for_vectors(
        width, [&](int64_t j, auto part) __attribute__((always_inline)) {
          store(c + i * c_row + j, load(tile + i * kTile + j), part);
        });
}
inline void read_in(float* tile, const float* c, int64_t c_row, int64_t rows, int64_t width) {
  pack_rows(tile, kTile, c, c_row, rows, width, 1.f);
}

template <typename T>
void block(float* c, int64_t c_row, const void* a, int64_t a_row, int64_t a_col, const void* b, int64_t b_row,
           int64_t b_col, int64_t m, int64_t n, int64_t k, bool accumulate) {
  alignas(64) float a_panel[kTile * kDepth], b_panel[kDepth * kTile], c_tile[kTile * kTile];
  for (int64_t i = 0; i < m; i += kTile) {
    for (int64_t j = 0; j < n; j += kTile) {
      const int64_t rows = smaller(kTile, m - i), width = smaller(kTile, n - j);
      float* to = c + i * c_row + j;
      if (accumulate) read_in(c_tile, to, c_row, rows, width);
      for (int64_t l = 0; l == 0 || l < k; l += kDepth) {
        const int64_t depth = smaller(kDepth, k - l);
        const T* a_from = static_cast<const T*>(a) + i * a_row + l * a_col;
        const T* b_from = static_cast<const T*>(b) + l * b_row + j * b_col;
        // An a whose column (the rows of c) is contiguous is packed in that order: multiply() takes any strides.
        const bool turned = a_row == 1 && a_col != 1;
        if (turned)
          pack(a_panel, kTile, a_from, a_col, 1, depth, rows);
        else
          pack(a_panel, kDepth, a_from, a_row, a_col, rows, depth);
        pack(b_panel, kTile, b_from, b_row, b_col, depth, width);
        multiply(c_tile, kTile, a_panel, turned ? 1 : kDepth, turned ? kTile : 1, b_panel, kTile, rows,
                 padded(width) / kLanes, depth, accumulate || l > 0);
      }
      write_back(to, c_row, c_tile, rows, width);
    }
  }
}

template <typename T>
constexpr GemmRows rows = {block<T>};

}  // namespace gemm
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
