// Products in f32 arithmetic, for f32 and, converted as they are packed, for bf16 and f16. Compiled for every
// instruction set that has vectors.
//
// - Second-level cache: a panel of b, over all of k, and a group of rows of a. The panel is multiplied by all rows of
//   the group before the next panel. Rows of an f32 a are read in place.
// - Registers: kHeight rows of c times a panel's vectors, over ranges of k. Between ranges the sums lie in the
//   first-level cache.
//
// Every element is a sum over ranges of kDepth, in order, and within a range one chain of fused multiply-adds over
// ascending k, on every instruction set and whatever the blocks.
#include "athanor/kernels/cpu/f32/write_row.h"
#include "athanor/kernels/cpu/gemm_block.h"
#include "athanor/kernels/cpu/simd/pack.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

// Cache sizes differ with the instruction set. With AVX-512, kHeight rows of a are multiplied by a panel over all of k.
// Processors without AVX-512 have smaller caches: there a range of k of a panel is multiplied by all rows of a group
// before the next range, so that it stays in the first-level cache. Rows of c are prefetched during their last
// products.
constexpr int64_t kDepth = 128;
constexpr int kHeight = 6;  // rows of c that live in registers, with a row of b beside them
#ifdef __AVX512F__
constexpr int kVectors = 4, kUnroll = 1;
constexpr int64_t kGroup = kAvx512GroupRows, kRun = kHeight, kSlice = INT64_MAX;
constexpr bool kFetches = false;
#else
constexpr int kVectors = 1, kUnroll = 4;
constexpr int64_t kGroup = kAvx2GroupRows, kRun = kGroup, kSlice = kDepth;
constexpr bool kFetches = true;
#endif
constexpr int64_t kPanel = kVectors * kLanes;  // columns

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

struct Rows {  // of a, in f32: row i, column l at data[i * row + l * col]
  const float* data;
  int64_t row, col;
};

// sums [kH, kV vectors] (+)= a [kH, k] . b [k, kV vectors], piece after piece; rows of sums and b are kPanel apart.
template <int kH, int kV>
void tile(float* sums, const Rows& a, const float* b, int64_t k, bool accumulate) {
  const float* factors = a.data;
  for (int64_t first = 0; first < k; first += kDepth) {
    V totals[kH * kV];
    unroll<kH * kV>([&](auto n) __attribute__((always_inline)) { totals[n] = zero(); });
    const int64_t depth = smaller(kDepth, k - first);
#pragma GCC unroll kUnroll
    for (int64_t l = 0; l < depth; ++l, factors += a.col, b += kPanel) {
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
      float* const to = sums + n / kV * kPanel + n % kV * kLanes;
      store(to, accumulate || first > 0 ? load(to) + totals[n] : totals[n]);
    });
  }
}

template <int kV>
void tile_of(int64_t rows, float* sums, const Rows& a, const float* b, int64_t k, bool accumulate) {
  static_assert(kHeight == 6);
  switch (rows) {
    case 6:
      return tile<6, kV>(sums, a, b, k, accumulate);
    case 5:
      return tile<5, kV>(sums, a, b, k, accumulate);
    case 4:
      return tile<4, kV>(sums, a, b, k, accumulate);
    case 3:
      return tile<3, kV>(sums, a, b, k, accumulate);
    case 2:
      return tile<2, kV>(sums, a, b, k, accumulate);
    default:
      return tile<1, kV>(sums, a, b, k, accumulate);
  }
}

// Up to kHeight rows times a panel.
void tiles(int64_t rows, int64_t vectors, float* sums, const Rows& a, const float* b, int64_t k,
           bool accumulate) {
  if (vectors == kVectors) return tile_of<kVectors>(rows, sums, a, b, k, accumulate);
#ifdef __AVX512F__
  if (vectors == 3) tile_of<3>(rows, sums, a, b, k, accumulate);
  if (vectors == 2) tile_of<2>(rows, sums, a, b, k, accumulate);
  if (vectors == 1) tile_of<1>(rows, sums, a, b, k, accumulate);
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

template <typename C>
void fetch_rows(const C* c, int64_t c_row, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) __builtin_prefetch(c + row * c_row, 1);
}

template <typename T, typename C>
void run(const GemmBlock& block) {
  const float* const b = reinterpret_cast<const float*>(block.packed_b);
  float* const sums = reinterpret_cast<float*>(block.scratch);  // [kRun, kPanel]
  float* const a_packed = sums + kRun * kPanel;
  for (int64_t i = 0; i < block.m; i += kGroup) {
    const int64_t group = smaller(kGroup, block.m - i);
    const Rows a = rows_of_a<T>(a_packed, block, i, group);
    for (int64_t j = 0; j < block.n; j += kPanel) {
      const int64_t width = smaller(kPanel, block.n - j);
      const T* const bias = block.bias == nullptr ? nullptr : static_cast<const T*>(block.bias) + j;
      for (int64_t first = 0; first < group; first += kRun) {
        const int64_t run = smaller(kRun, group - first);
        C* const c = static_cast<C*>(block.c) + (i + first) * block.c_row + j;
        for (int64_t l = 0; l < block.k; l += kSlice) {
          const int64_t depth = smaller(kSlice, block.k - l);
          for (int64_t row = 0; row < run; row += kHeight) {
            const int64_t rows = smaller(kHeight, run - row);
            if (kFetches && l + depth == block.k) fetch_rows(c + row * block.c_row, block.c_row, rows);
            tiles(rows, padded(width) / kLanes, sums + row * kPanel,
                  {a.data + (first + row) * a.row + l * a.col, a.row, a.col}, b + j * block.k + l * kPanel,
                  depth, l > 0);
          }
        }
        for (int64_t row = 0; row < run; ++row)
          write_row(c + row * block.c_row, sums + row * kPanel, bias, width, block.accumulate);
      }
    }
  }
}

// b in panels: [panels][k][kPanel]
template <typename T>
void pack(float* to, const GemmBlock& block) {
  for (int64_t j = 0; j < block.n; j += kPanel, to += block.k * kPanel) {
    const int64_t width = smaller(kPanel, block.n - j);
    const T* from = static_cast<const T*>(block.b) + j * block.b_col;
    if (block.b_col == 1)
      pack_rows(to, kPanel, from, block.b_row, block.k, width, 1.f);
    else
      pack_transposed(to, kPanel, from, block.b_col, width, block.k);
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

}  // namespace athanor::kernels::ATHANOR_ISA
