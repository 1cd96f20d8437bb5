// Products in f32 arithmetic, for f32 and, converted as they are packed, for bf16 and f16. Compiled for every
// instruction set that has vectors.
//
// - Second-level cache: a panel of b, 64 columns and all of k, and a group of rows of a, which the panel meets before
//   the next one passes through. Rows of an f32 a are read where they are.
// - Registers: kHeight rows of c times a panel's vectors, over pieces of k. Between pieces their sums wait in the
//   first-level cache.
//
// Every element is a sum over pieces of kDepth, in order, and within a piece one chain of fused multiply-adds
// over ascending k, on every instruction set and whatever the cut into blocks.
#include "athanor/kernels/cpu/f32/write_row.h"
#include "athanor/kernels/cpu/gemm_block.h"
#include "athanor/kernels/cpu/simd/pack.h"

namespace athanor::ATHANOR_ISA {
namespace {

constexpr int64_t kDepth = 128, kGroup = kF32GroupRows;

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

struct Rows {  // of a, in f32: row i, column l at data[i * row + l * col]
  const float* data;
  int64_t row, col;
};

// sums [kH, kV vectors] = a [kH, k] . b [k, kV vectors]; rows of both are kF32PanelWidth apart.
template <int kH, int kV>
void tile(float* sums, const Rows& a, const float* b, int64_t k) {
  const float* factors = a.data;
  for (int64_t first = 0; first < k; first += kDepth) {
    V totals[kH * kV];
    unroll<kH * kV>([&](auto n) __attribute__((always_inline)) { totals[n] = zero(); });
    const int64_t depth = smaller(kDepth, k - first);
    for (int64_t l = 0; l < depth; ++l, factors += a.col, b += kF32PanelWidth) {
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
      float* const to = sums + n / kV * kF32PanelWidth + n % kV * kLanes;
      store(to, first == 0 ? totals[n] : load(to) + totals[n]);
    });
  }
}

template <int kV>
void tile_of(int64_t rows, float* sums, const Rows& a, const float* b, int64_t k) {
  static_assert(kHeight == 6);
  switch (rows) {
    case 6:
      return tile<6, kV>(sums, a, b, k);
    case 5:
      return tile<5, kV>(sums, a, b, k);
    case 4:
      return tile<4, kV>(sums, a, b, k);
    case 3:
      return tile<3, kV>(sums, a, b, k);
    case 2:
      return tile<2, kV>(sums, a, b, k);
    default:
      return tile<1, kV>(sums, a, b, k);
  }
}

// Up to kHeight rows times a panel: as many of its vectors as kVectors at a time, then the rest.
void tiles(int64_t rows, int64_t vectors, float* sums, const Rows& a, const float* b, int64_t k) {
  for (; vectors >= kVectors; vectors -= kVectors, sums += kVectors * kLanes, b += kVectors * kLanes)
    tile_of<kVectors>(rows, sums, a, b, k);
#ifdef __AVX512F__
  if (vectors == 3) tile_of<3>(rows, sums, a, b, k);
  if (vectors == 2) tile_of<2>(rows, sums, a, b, k);
  if (vectors == 1) tile_of<1>(rows, sums, a, b, k);
#endif
}

// Rows of a from i on.
template <typename T>
Rows rows_of_a(float* packed, const GemmBlock& block, int64_t i, int64_t rows) {
  const T* from = static_cast<const T*>(block.a) + i * block.a_row;
  if (block.a_col != 1) {
    pack_rows(packed, kGroup, from, block.a_col, block.k, rows, 1.f);
    return {packed, 1, kGroup};
  }
  if constexpr (sizeof(T) == sizeof(float)) return {from, block.a_row, 1};
  const int64_t row = padded(block.k);
  pack_rows(packed, row, from, block.a_row, rows, block.k, 1.f);
  return {packed, row, 1};
}

template <typename T, typename C>
void run(const GemmBlock& block) {
  const float* const b = reinterpret_cast<const float*>(block.packed_b);
  float* const sums = reinterpret_cast<float*>(block.scratch);  // [kHeight, kF32PanelWidth]
  float* const a_packed = sums + kHeight * kF32PanelWidth;
  for (int64_t i = 0; i < block.m; i += kGroup) {
    const int64_t group = smaller(kGroup, block.m - i);
    const Rows a = rows_of_a<T>(a_packed, block, i, group);
    for (int64_t j = 0; j < block.n; j += kF32PanelWidth) {
      const int64_t width = smaller(kF32PanelWidth, block.n - j);
      const T* const bias = block.bias == nullptr ? nullptr : static_cast<const T*>(block.bias) + j;
      for (int64_t first = 0; first < group; first += kHeight) {
        const int64_t rows = smaller(kHeight, group - first);
        tiles(rows, padded(width) / kLanes, sums, {a.data + first * a.row, a.row, a.col}, b + j * block.k,
              block.k);
        for (int64_t row = 0; row < rows; ++row)
          write_row(static_cast<C*>(block.c) + (i + first + row) * block.c_row + j,
                    sums + row * kF32PanelWidth, bias, width, block.accumulate);
      }
    }
  }
}

// b in panels: [panels][k][kF32PanelWidth]
template <typename T>
void pack(float* to, const GemmBlock& block) {
  for (int64_t j = 0; j < block.n; j += kF32PanelWidth, to += block.k * kF32PanelWidth) {
    const int64_t width = smaller(kF32PanelWidth, block.n - j);
    const T* from = static_cast<const T*>(block.b) + j * block.b_col;
    if (block.b_col == 1)
      pack_rows(to, kF32PanelWidth, from, block.b_row, block.k, width, 1.f);
    else
      pack_transposed(to, kF32PanelWidth, from, block.b_col, width, block.k);
  }
}

}  // namespace

void pack_b(const GemmBlock& block, std::byte* packed) {
  float* const to = reinterpret_cast<float*>(packed);
  if (block.in == kF32) return pack<float>(to, block);
  if (block.in == kBf16) return pack<Bf16>(to, block);
  return pack<F16>(to, block);
}

void gemm_block(const GemmBlock& block) {
  if (block.in == kF32) return run<float, float>(block);
  if (block.in == kBf16) return block.out == kF32 ? run<Bf16, float>(block) : run<Bf16, Bf16>(block);
  return block.out == kF32 ? run<F16, float>(block) : run<F16, F16>(block);
}

}  // namespace athanor::ATHANOR_ISA
