// Products in f32 arithmetic, for f32 and, converted as they are packed, for bf16 and f16. Compiled for every
// instruction set that has vectors.
//
// - Second-level cache: the part of b that a block spans is packed once, in panels of 64 columns.
// - First-level cache: a piece of such a panel, kDepth rows of k, and as much of kRows rows of a.
// - Registers: kHeight rows of c times a panel's vectors.
//
// Every element is a sum over pieces of kDepth, in order, and within a piece one chain of fused multiply-adds
// over ascending k, on every instruction set and whatever the cut into blocks.
#include "athanor/kernels/cpu/f32/write_row.h"
#include "athanor/kernels/cpu/gemm_block.h"
#include "athanor/kernels/cpu/simd/pack.h"

namespace athanor::ATHANOR_ISA {
namespace {

constexpr int64_t kWidth = 64, kDepth = 128, kRows = 48;

// The part of c that lives in registers, with a row of b beside it.
constexpr int kHeight = 6;
#ifdef __AVX512F__
constexpr int kVectors = 4;
#else
constexpr int kVectors = 1;
#endif

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

struct Piece {  // of a, in f32: row i, column l at data[i * row + l * col]
  const float* data;
  int64_t row, col, depth;
};

// sums [kH, kV vectors] += a [kH, depth] . b [depth, kV vectors], rows kWidth apart
template <int kH, int kV>
void tile(float* sums, int64_t sums_row, const Piece& a, const float* b) {
  V totals[kH * kV];
  unroll<kH * kV>([&](auto n) __attribute__((always_inline)) { totals[n] = zero(); });
  const float* factors = a.data;
  for (int64_t l = 0; l < a.depth; ++l, factors += a.col, b += kWidth) {
    V row[kV];
    unroll<kV>([&](auto j) __attribute__((always_inline)) { row[j] = load(b + j * kLanes); });
    unroll<kH>([&](auto i) __attribute__((always_inline)) {
      const V factor = set1(factors[i * a.row]);
      unroll<kV>([&](auto j) __attribute__((always_inline)) {
        totals[i * kV + j] = fma(factor, row[j], totals[i * kV + j]);
      });
    });
  }
  unroll<kH * kV>([&](auto n) __attribute__((always_inline)) {
    float* to = sums + n / kV * sums_row + n % kV * kLanes;
    store(to, load(to) + totals[n]);
  });
}

template <int kV>
void strip(float* sums, int64_t sums_row, Piece a, const float* b, int64_t rows) {
  for (; rows >= kHeight; rows -= kHeight, sums += kHeight * sums_row, a.data += kHeight * a.row)
    tile<kHeight, kV>(sums, sums_row, a, b);
  if (rows == 5) tile<5, kV>(sums, sums_row, a, b);
  if (rows == 4) tile<4, kV>(sums, sums_row, a, b);
  if (rows == 3) tile<3, kV>(sums, sums_row, a, b);
  if (rows == 2) tile<2, kV>(sums, sums_row, a, b);
  if (rows == 1) tile<1, kV>(sums, sums_row, a, b);
}

// As many of `vectors` as kV at a time, then the rest.
void panel(float* sums, int64_t sums_row, const Piece& a, const float* b, int64_t rows, int64_t vectors) {
  for (; vectors >= kVectors; vectors -= kVectors, sums += kVectors * kLanes, b += kVectors * kLanes)
    strip<kVectors>(sums, sums_row, a, b, rows);
#ifdef __AVX512F__
  if (vectors == 3) strip<3>(sums, sums_row, a, b, rows);
  if (vectors == 2) strip<2>(sums, sums_row, a, b, rows);
  if (vectors == 1) strip<1>(sums, sums_row, a, b, rows);
#endif
}

// b, by pieces of k, panels, rows of k: [pieces][panels][kDepth][kWidth]
template <typename T>
void pack_b(float* to, const GemmBlock& block) {
  for (int64_t l = 0; l < block.k; l += kDepth) {
    const int64_t depth = smaller(kDepth, block.k - l);
    for (int64_t j = 0; j < block.n; j += kWidth, to += kDepth * kWidth) {
      const int64_t width = smaller(kWidth, block.n - j);
      const T* from = static_cast<const T*>(block.b) + l * block.b_row + j * block.b_col;
      if (block.b_col == 1)
        pack_rows(to, kWidth, from, block.b_row, depth, width, 1.f);
      else
        pack_transposed(to, kWidth, from, block.b_col, width, depth);
    }
  }
}

template <typename T>
Piece piece_of_a(float* packed, const GemmBlock& block, int64_t i, int64_t l, int64_t rows, int64_t depth) {
  const T* from = static_cast<const T*>(block.a) + i * block.a_row + l * block.a_col;
  if (block.a_col != 1) {
    pack_rows(packed, kRows, from, block.a_col, depth, rows, 1.f);
    return {packed, 1, kRows, depth};
  }
  if constexpr (sizeof(T) == sizeof(float)) return {from, block.a_row, 1, depth};
  pack_rows(packed, kDepth, from, block.a_row, rows, depth, 1.f);
  return {packed, kDepth, 1, depth};
}

template <typename T, typename C>
void run(const GemmBlock& block) {
  const int64_t panels = (block.n + kWidth - 1) / kWidth, pieces = (block.k + kDepth - 1) / kDepth;
  float* b = reinterpret_cast<float*>(block.scratch);
  float* a = b + pieces * panels * kDepth * kWidth;
  float* sums = a + kRows * kDepth;  // [kRows, panels]
  const int64_t sums_row = panels * kWidth;
  pack_b<T>(b, block);
  for (int64_t i = 0; i < block.m; i += kRows) {
    const int64_t rows = smaller(kRows, block.m - i);
    for (int64_t n = 0; n < rows * sums_row; n += kLanes) store(sums + n, zero());
    for (int64_t l = 0; l < block.k; l += kDepth) {
      const Piece piece = piece_of_a<T>(a, block, i, l, rows, smaller(kDepth, block.k - l));
      for (int64_t j = 0; j < block.n; j += kWidth)
        panel(sums + j, sums_row, piece, b + (l / kDepth * panels + j / kWidth) * kDepth * kWidth, rows,
              padded(smaller(kWidth, block.n - j)) / kLanes);
    }
    for (int64_t row = 0; row < rows; ++row)
      write_row(static_cast<C*>(block.c) + (i + row) * block.c_row, sums + row * sums_row,
                static_cast<const T*>(block.bias), block.n, block.accumulate);
  }
}

}  // namespace

void gemm_block(const GemmBlock& block) {
  if (block.in == kF32) return run<float, float>(block);
  if (block.in == kBf16) return block.out == kF32 ? run<Bf16, float>(block) : run<Bf16, Bf16>(block);
  return block.out == kF32 ? run<F16, float>(block) : run<F16, F16>(block);
}

}  // namespace athanor::ATHANOR_ISA
