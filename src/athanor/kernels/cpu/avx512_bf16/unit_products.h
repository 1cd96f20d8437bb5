// Products of units (bf16/pack.h) with AVX-512's bf16 products: 32 x 32 results, some steps of 32 k each.
//
// Eight rows of 32 results lie in registers: sixteen sums, which hide how long a product takes; a pair of k of each row is
// spread over a register, and meets two of b.
#pragma once

#include "athanor/kernels/cpu/bf16/pack.h"

namespace athanor::ATHANOR_ISA {
namespace {

inline constexpr int64_t kRegisterRows = 8;

// Where row i of 32 results is: its halves at i * row and at i * row + half, the rows from the 16th on `lower` behind.
struct ResultLayout {
  int64_t row, half, lower;
};

[[gnu::always_inline]] inline __m512bh pair_of(const uint16_t* from) {
  int32_t pair;
  __builtin_memcpy(&pair, from, sizeof(pair));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}
[[gnu::always_inline]] inline __m512bh pairs_of(const uint16_t* from) {
  return reinterpret_cast<__m512bh>(_mm512_load_si512(from));
}

// c = or += the sum over steps of a . b, units that follow each other; of eight rows.
template <ResultLayout kTo>
[[gnu::always_inline]] inline void multiply_rows(float* c, const uint16_t* a, const uint16_t* b,
                                                 int64_t steps, bool starts) {
  __m512 left[kRegisterRows], right[kRegisterRows];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kRegisterRows; ++i) {
    left[i] = starts ? _mm512_setzero_ps() : _mm512_load_ps(c + i * kTo.row);
    right[i] = starts ? _mm512_setzero_ps() : _mm512_load_ps(c + i * kTo.row + kTo.half);
  }
  for (int64_t s = 0; s < steps; ++s, a += kUnit, b += kUnit) {
#pragma GCC unroll 16
    for (int64_t p = 0; p < kSide / 2; ++p) {
      const __m512bh b_left = pairs_of(b + p * kSide), b_right = pairs_of(b + kUnit / 2 + p * kSide);
#pragma GCC unroll 8
      for (int64_t i = 0; i < kRegisterRows; ++i) {
        const __m512bh pair = pair_of(a + i * kSide + 2 * p);
        left[i] = _mm512_dpbf16_ps(left[i], pair, b_left);
        right[i] = _mm512_dpbf16_ps(right[i], pair, b_right);
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kRegisterRows; ++i) {
    _mm512_store_ps(c + i * kTo.row, left[i]);
    _mm512_store_ps(c + i * kTo.row + kTo.half, right[i]);
  }
}

// after_rows() is called whenever eight rows are in memory.
template <ResultLayout kTo, typename AfterRows>
[[gnu::always_inline]] inline void multiply_units(float* c, const uint16_t* a, const uint16_t* b,
                                                  int64_t steps, bool starts, const AfterRows& after_rows) {
  for (int64_t row = 0; row < kSide; row += kRegisterRows) {
    multiply_rows<kTo>(c + row / 16 * kTo.lower + row % 16 * kTo.row, a + row * kSide, b, steps, starts);
    after_rows();
  }
}

}  // namespace
}  // namespace athanor::ATHANOR_ISA
