// Packs operands of bf16 products for tile registers. A unit is what one step of the product consumes of one operand:
// 32 rows (of a) or columns (of b) by 32 of k, as two tiles of 16 rows of 64 bytes:
//
//   a: row i of a tile is row i of the operand, 32 consecutive k
//   b: row p of a tile is k = 2p and 2p+1 of 16 columns, as pairs
//
// The Form of packing follows from that. k contiguous in memory: a is copied, b is transposed as 32-bit pairs. k not
// contiguous: b is paired (two rows of k shuffled together), a is turned (paired, then transposed). Kernels on vector
// registers broadcast pairs of a one by one, so they take a as interleaved: paired, but left in unpacking order.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

inline constexpr int64_t kSide = 32;             // rows or columns, and k, of a unit
inline constexpr int64_t kUnit = kSide * kSide;  // elements of a unit

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
inline __mmask32 first32(int64_t count) {
  return count >= 32 ? ~__mmask32{0} : count <= 0 ? __mmask32{0} : (__mmask32{1} << count) - 1;
}

// An operand [length, k]: a with its rows, or b with its columns as "lines".
struct Operand {
  const uint16_t* data;
  int64_t line, depth;  // strides between lines and between k; one of them is 1
  int64_t lines, k;
};

[[gnu::always_inline]] inline void transpose(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

[[gnu::always_inline]] inline void store(uint16_t* to, const __m512i (&r)[16]) {
  for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * kSide, r[i]);
}

// k is contiguous: 16 lines of 32.
template <bool kTranspose>
[[gnu::always_inline]] inline void pack_lines(uint16_t* to, const Operand& x, int64_t first, int64_t k) {
  const __mmask32 mask = first32(x.k - k);
  const uint16_t* from = x.data + first * x.line + k;
  for (int tile = 0; tile < 2; ++tile, to += kUnit / 2, from += 16 * x.line) {
    const int64_t count = x.lines - first - 16 * tile;
    __m512i r[16];
    if (count >= 16) {
      for (int i = 0; i < 16; ++i) r[i] = _mm512_maskz_loadu_epi16(mask, from + i * x.line);
    } else {
      for (int i = 0; i < 16; ++i)
        r[i] = i < count ? _mm512_maskz_loadu_epi16(mask, from + i * x.line) : _mm512_setzero_si512();
    }
    if (kTranspose) transpose(r);
    store(to, r);
  }
}

// Lines are contiguous: 32 rows of k, two of which make a row of pairs. Where `sums` is not null the 32 k of each line
// are added to it, in the order of turned_row().
template <bool kTurn>
[[gnu::always_inline]] inline void pack_pairs(uint16_t* to, const Operand& x, int64_t first, int64_t k,
                                              float* sums = nullptr) {
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __mmask32 mask = first32(x.lines - first);
  const uint16_t* from = x.data + first + k * x.depth;
  const int64_t count = x.k - k;
  __m512i left[16], right[16];
  for (int i = 0; i < 16; ++i) {
    const __m512i even =
        2 * i < count ? _mm512_maskz_loadu_epi16(mask, from + 2 * i * x.depth) : _mm512_setzero_si512();
    const __m512i odd = 2 * i + 1 < count ? _mm512_maskz_loadu_epi16(mask, from + (2 * i + 1) * x.depth)
                                          : _mm512_setzero_si512();
    left[i] = _mm512_unpacklo_epi16(even, odd);
    right[i] = _mm512_unpackhi_epi16(even, odd);
    if (!kTurn) {
      const __m512i evens = left[i];
      left[i] = _mm512_permutex2var_epi64(evens, low, right[i]);
      right[i] = _mm512_permutex2var_epi64(evens, high, right[i]);
    }
  }
  if (kTurn && sums != nullptr) {
    const __m512bh ones = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f80));
    __m512 low_sums = _mm512_load_ps(sums), high_sums = _mm512_load_ps(sums + 16);
    for (int i = 0; i < 16; ++i) {
      low_sums = _mm512_dpbf16_ps(low_sums, reinterpret_cast<__m512bh>(left[i]), ones);
      high_sums = _mm512_dpbf16_ps(high_sums, reinterpret_cast<__m512bh>(right[i]), ones);
    }
    _mm512_store_ps(sums, low_sums);
    _mm512_store_ps(sums + 16, high_sums);
  }
  if (kTurn) {
    transpose(left);
    transpose(right);
  }
  store(to, left);
  store(to + kUnit / 2, right);
}

// The line that row `row` of a turned unit, or pair `row` of an interleaved unit, holds. Unpacking puts four of every
// eight lines into each tile.
inline int64_t turned_row(int64_t row) {
  return row % 16 / 4 * 8 + row / 16 * 4 + row % 4;
}

enum class Form { copied, transposed, paired, turned, interleaved };

template <Form kForm>
[[gnu::always_inline]] inline void pack_unit(uint16_t* to, const Operand& x, int64_t first, int64_t k,
                                             float* sums = nullptr) {
  if constexpr (kForm == Form::copied) pack_lines<false>(to, x, first, k);
  if constexpr (kForm == Form::transposed) pack_lines<true>(to, x, first, k);
  if constexpr (kForm == Form::paired) pack_pairs<false>(to, x, first, k);
  if constexpr (kForm == Form::turned) pack_pairs<true>(to, x, first, k, sums);
}

// Packs units of kPanels neighbouring panels whose lines are contiguous, all of k, two rows of k at a time: memory is
// read in long runs and prefetched some rows ahead. Panels are `steps` units apart. For interleaved units `sums`
// [kPanels][kSide] (may be null) becomes the sum over k of each line, in the order of turned_row().
template <Form kForm, int64_t kPanels>
inline void pack_panels_of_pairs(uint16_t* to, const Operand& x, int64_t first, int64_t steps,
                                 float (*sums)[kSide] = nullptr) {
  static_assert(kForm == Form::paired || kForm == Form::interleaved);
  constexpr int64_t kRowsAhead = kForm == Form::paired ? 16 : 8;
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __m512bh ones = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f80));
  const int64_t panel = steps * kUnit;
  __mmask32 masks[kPanels];
  __m512 low_sums[kPanels], high_sums[kPanels];
  for (int64_t i = 0; i < kPanels; ++i) {
    masks[i] = first32(x.lines - first - i * kSide);
    low_sums[i] = high_sums[i] = _mm512_setzero_ps();
  }
  const uint16_t* from = x.data + first;
  for (int64_t k = 0; k < steps * kSide; k += 2, from += 2 * x.depth) {
    uint16_t* const pairs = to + k / kSide * kUnit + k % kSide / 2 * kSide;
    const uint16_t* const ahead = from + kRowsAhead * x.depth;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kPanels; ++i) {
      _mm_prefetch(ahead + i * kSide, _MM_HINT_T0);
      _mm_prefetch(ahead + x.depth + i * kSide, _MM_HINT_T0);
      const __m512i even =
          k < x.k ? _mm512_maskz_loadu_epi16(masks[i], from + i * kSide) : _mm512_setzero_si512();
      const __m512i odd = k + 1 < x.k ? _mm512_maskz_loadu_epi16(masks[i], from + x.depth + i * kSide)
                                      : _mm512_setzero_si512();
      __m512i left = _mm512_unpacklo_epi16(even, odd), right = _mm512_unpackhi_epi16(even, odd);
      if constexpr (kForm == Form::paired) {
        const __m512i unpacked = left;
        left = _mm512_permutex2var_epi64(unpacked, low, right);
        right = _mm512_permutex2var_epi64(unpacked, high, right);
      } else {
        low_sums[i] = _mm512_dpbf16_ps(low_sums[i], reinterpret_cast<__m512bh>(left), ones);
        high_sums[i] = _mm512_dpbf16_ps(high_sums[i], reinterpret_cast<__m512bh>(right), ones);
      }
      _mm512_store_si512(pairs + i * panel, left);
      _mm512_store_si512(pairs + i * panel + kUnit / 2, right);
    }
  }
  for (int64_t i = 0; i < kPanels && sums != nullptr; ++i) {
    _mm512_storeu_ps(sums[i], low_sums[i]);
    _mm512_storeu_ps(sums[i] + 16, high_sums[i]);
  }
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
