// Products of units (bf16/pack.h) with the bf16 instructions of AVX-512: rows of a times 32 columns of b, in steps of
// 32 k.
//
// Eight rows of 32 results stay in registers: sixteen sums, enough to hide the latency of a product. A pair of k of
// each row of a is broadcast over a register and multiplied by the pairs of 32 columns of b, which are two registers.
#pragma once

#include "athanor/kernels/cpu/bf16/pack.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

inline constexpr int64_t kRegisterRows = 8;

// Eight rows of 32 results, as halves of 16.
struct RowSums {
  __m512 left[kRegisterRows], right[kRegisterRows];
};

[[gnu::always_inline]] inline __m512bh pair_of(const uint16_t* from) {
  int32_t pair;
  __builtin_memcpy(&pair, from, sizeof(pair));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}
[[gnu::always_inline]] inline __m512bh pairs_of(const uint16_t* from) {
  return reinterpret_cast<__m512bh>(_mm512_load_si512(from));
}

// c += the sum over steps of a . b. Rows of a are a_row elements apart and its steps a_step; units of b are contiguous.
[[gnu::always_inline]] inline void add_products(RowSums& c, const uint16_t* a, int64_t a_row, int64_t a_step,
                                                const uint16_t* b, int64_t steps) {
  const uint16_t* rows[kRegisterRows];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kRegisterRows; ++i) rows[i] = a + i * a_row;
  for (int64_t s = 0; s < steps; ++s, b += kUnit) {
#pragma GCC unroll 4
    for (int64_t p = 0; p < kSide / 2; ++p) {
      const __m512bh b_left = pairs_of(b + p * kSide), b_right = pairs_of(b + kUnit / 2 + p * kSide);
#pragma GCC unroll 8
      for (int64_t i = 0; i < kRegisterRows; ++i) {
        const __m512bh pair = pair_of(rows[i] + 2 * p);
        c.left[i] = _mm512_dpbf16_ps(c.left[i], pair, b_left);
        c.right[i] = _mm512_dpbf16_ps(c.right[i], pair, b_right);
      }
    }
#pragma GCC unroll 8
    for (int64_t i = 0; i < kRegisterRows; ++i) {
      rows[i] += a_step;
      asm(""
          : "+r"(
              rows[i]));  // else the compiler keeps a hundred distances between rows, most of them in memory
    }
  }
}

// The same for an a packed as Form::interleaved units (bf16/pack.h).
[[gnu::always_inline]] inline void add_interleaved_products(RowSums& c, const uint16_t* a, const uint16_t* b,
                                                            int64_t steps) {
  for (int64_t s = 0; s < steps; ++s, a += kUnit, b += kUnit) {
#pragma GCC unroll 4
    for (int64_t p = 0; p < kSide / 2; ++p) {
      const __m512bh b_left = pairs_of(b + p * kSide), b_right = pairs_of(b + kUnit / 2 + p * kSide);
#pragma GCC unroll 8
      for (int64_t i = 0; i < kRegisterRows; ++i) {
        const __m512bh pair = pair_of(a + p * kSide + 2 * i);
        c.left[i] = _mm512_dpbf16_ps(c.left[i], pair, b_left);
        c.right[i] = _mm512_dpbf16_ps(c.right[i], pair, b_right);
      }
    }
  }
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
