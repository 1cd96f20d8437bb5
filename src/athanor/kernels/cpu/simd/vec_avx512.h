// The vectors of vec.h as one 512-bit register.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

struct V {
  __m512 x;
};
struct VI {
  __m512i x;
};
struct Mask {
  __mmask16 m;
};
struct VD {  // 16 doubles: lanes 0-7, 8-15
  __m512d lo, hi;
};

inline V set1(float v) {
  return {_mm512_set1_ps(v)};
}
inline VI set1i(uint32_t v) {
  return {_mm512_set1_epi32(static_cast<int>(v))};
}
inline V operator+(V a, V b) {
  return {_mm512_add_ps(a.x, b.x)};
}
inline V operator-(V a, V b) {
  return {_mm512_sub_ps(a.x, b.x)};
}
inline V operator*(V a, V b) {
  return {_mm512_mul_ps(a.x, b.x)};
}
inline V operator/(V a, V b) {
  return {_mm512_div_ps(a.x, b.x)};
}
inline V fma(V a, V b, V c) {
  return {_mm512_fmadd_ps(a.x, b.x, c.x)};
}
inline V fnma(V a, V b, V c) {
  return {_mm512_fnmadd_ps(a.x, b.x, c.x)};
}
inline V min(V a, V b) {
  return {_mm512_min_ps(a.x, b.x)};
}
inline V max(V a, V b) {
  return {_mm512_max_ps(a.x, b.x)};
}
inline V sqrt(V a) {
  return {_mm512_sqrt_ps(a.x)};
}

inline VI operator+(VI a, VI b) {
  return {_mm512_add_epi32(a.x, b.x)};
}
inline VI operator-(VI a, VI b) {
  return {_mm512_sub_epi32(a.x, b.x)};
}
inline VI operator&(VI a, VI b) {
  return {_mm512_and_si512(a.x, b.x)};
}
inline VI operator|(VI a, VI b) {
  return {_mm512_or_si512(a.x, b.x)};
}
inline VI operator^(VI a, VI b) {
  return {_mm512_xor_si512(a.x, b.x)};
}
template <int kBits>
inline VI shift_left(VI a) {
  return {_mm512_slli_epi32(a.x, kBits)};
}
template <int kBits>
inline VI shift_right(VI a) {
  return {_mm512_srli_epi32(a.x, kBits)};
}
inline VI bits_of(V a) {
  return {_mm512_castps_si512(a.x)};
}
inline V float_of(VI a) {
  return {_mm512_castsi512_ps(a.x)};
}
inline V to_float(VI a) {
  return {_mm512_cvtepi32_ps(a.x)};
}

inline Mask less(V a, V b) {
  return {_mm512_cmp_ps_mask(a.x, b.x, _CMP_LT_OQ)};
}
inline Mask at_least(V a, V b) {
  return {_mm512_cmp_ps_mask(a.x, b.x, _CMP_GE_OQ)};
}
inline Mask is_nan(V a) {
  return {_mm512_cmp_ps_mask(a.x, a.x, _CMP_UNORD_Q)};
}
inline V select(Mask m, V yes, V no) {
  return {_mm512_mask_mov_ps(no.x, m.m, yes.x)};
}
inline VI select(Mask m, VI yes, VI no) {
  return {_mm512_mask_mov_epi32(no.x, m.m, yes.x)};
}
inline Mask first_lanes(int n) {
  return {static_cast<__mmask16>((1u << n) - 1u)};
}
// Lane i: bit i.
inline Mask lanes_of_bits(uint64_t bits) {
  return {static_cast<__mmask16>(bits)};
}

inline __m256 low_half(V a) {
  return _mm512_castps512_ps256(a.x);
}
inline __m256 high_half(V a) {
  return _mm512_extractf32x8_ps(a.x, 1);
}

inline VD zero_doubles() {
  return {_mm512_setzero_pd(), _mm512_setzero_pd()};
}
inline VD add_squares(VD sum, V a) {
  const __m512d lo = _mm512_cvtps_pd(low_half(a)), hi = _mm512_cvtps_pd(high_half(a));
  return {_mm512_fmadd_pd(lo, lo, sum.lo), _mm512_fmadd_pd(hi, hi, sum.hi)};
}
inline VD operator+(VD a, VD b) {
  return {_mm512_add_pd(a.lo, b.lo), _mm512_add_pd(a.hi, b.hi)};
}
inline __m256d fold(VD a) {
  const __m512d s = _mm512_add_pd(a.lo, a.hi);
  return _mm256_add_pd(_mm512_castpd512_pd256(s), _mm512_extractf64x4_pd(s, 1));
}

inline V load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
inline V load(const float* p, Mask m) {
  return {_mm512_maskz_loadu_ps(m.m, p)};
}
inline void store(float* p, V a) {
  _mm512_storeu_ps(p, a.x);
}
inline void store(float* p, V a, Mask m) {
  _mm512_mask_storeu_ps(p, m.m, a.x);
}
inline void stream(float* p, V a) {  // past the caches; aligned to 64 bytes
  _mm512_stream_ps(p, a.x);
}
inline void store(uint32_t* p, VI a) {
  _mm512_storeu_si512(p, a.x);
}

// Sixteen 16-bit values in the low halves of the lanes.
inline VI load16(const uint16_t* p) {
  return {_mm512_cvtepu16_epi32(_mm256_loadu_epi16(p))};
}
inline VI load16(const uint16_t* p, Mask m) {
  return {_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m.m, p))};
}
inline void store16(uint16_t* p, VI a) {
  _mm256_storeu_epi16(p, _mm512_cvtepi32_epi16(a.x));
}
inline void store16(uint16_t* p, VI a, Mask m) {
  _mm256_mask_storeu_epi16(p, m.m, _mm512_cvtepi32_epi16(a.x));
}
inline V from_half(VI a) {
  return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(a.x))};
}
inline VI to_half(V a) {
  return {_mm512_cvtepu16_epi32(_mm512_cvtps_ph(a.x, _MM_FROUND_TO_NEAREST_INT))};
}

// a * b as 64 bits per lane, in two vectors of 32-bit lanes.
inline void multiply_wide(VI a, VI b, VI& high, VI& low) {
  const __m512i even = _mm512_mul_epu32(a.x, b.x);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.x, 32), _mm512_srli_epi64(b.x, 32));
  high.x = _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
  low.x = _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
}

// Of 64-bit numbers, of which each adds its upper half to itself: sums in eight lanes, and sums of these sums.
struct BlockSum {
  __m512i sums, sums_of_sums;
};
inline BlockSum zero_block_sum() {
  return {_mm512_setzero_si512(), _mm512_setzero_si512()};
}
inline BlockSum add_numbers(BlockSum to, VI x) {
  const __m512i sums = _mm512_add_epi64(to.sums, _mm512_add_epi64(x.x, _mm512_srli_epi64(x.x, 32)));
  return {sums, _mm512_add_epi64(to.sums_of_sums, sums)};
}
// As four lanes have them that take lanes 0-3 in one step and lanes 4-7 in the next: a number that eight lanes count r
// times in the sums of sums counts 2 r times, in the later step 2 r - 1 times.
inline void store_lanes(BlockSum from, uint64_t (&sums)[4], uint64_t (&sums_of_sums)[4]) {
  const __m256i later = _mm512_extracti64x4_epi64(from.sums, 1);
  const __m256i both = _mm256_add_epi64(_mm512_castsi512_si256(from.sums_of_sums),
                                        _mm512_extracti64x4_epi64(from.sums_of_sums, 1));
  _mm256_storeu_epi64(sums, _mm256_add_epi64(_mm512_castsi512_si256(from.sums), later));
  _mm256_storeu_epi64(sums_of_sums, _mm256_sub_epi64(_mm256_add_epi64(both, both), later));
}

// Transposes 4 x 4 blocks: lane 4 L + i of out[j] is lane 4 L + j of in[i].
inline void transpose_quads(const VI (&in)[4], VI (&out)[4]) {
  const __m512i ab0 = _mm512_unpacklo_epi32(in[0].x, in[1].x), ab1 = _mm512_unpackhi_epi32(in[0].x, in[1].x);
  const __m512i cd0 = _mm512_unpacklo_epi32(in[2].x, in[3].x), cd1 = _mm512_unpackhi_epi32(in[2].x, in[3].x);
  out[0].x = _mm512_unpacklo_epi64(ab0, cd0);
  out[1].x = _mm512_unpackhi_epi64(ab0, cd0);
  out[2].x = _mm512_unpacklo_epi64(ab1, cd1);
  out[3].x = _mm512_unpackhi_epi64(ab1, cd1);
}

// Transposes quads of lanes: quad g of out[i] is quad i of in[g].
inline void transpose_lanes(const VI (&in)[4], VI (&out)[4]) {
  const __m512i even01 = _mm512_shuffle_i32x4(in[0].x, in[1].x, 0x88);  // quads 0 and 2 of both
  const __m512i odd01 = _mm512_shuffle_i32x4(in[0].x, in[1].x, 0xdd);
  const __m512i even23 = _mm512_shuffle_i32x4(in[2].x, in[3].x, 0x88);
  const __m512i odd23 = _mm512_shuffle_i32x4(in[2].x, in[3].x, 0xdd);
  out[0].x = _mm512_shuffle_i32x4(even01, even23, 0x88);
  out[1].x = _mm512_shuffle_i32x4(odd01, odd23, 0x88);
  out[2].x = _mm512_shuffle_i32x4(even01, even23, 0xdd);
  out[3].x = _mm512_shuffle_i32x4(odd01, odd23, 0xdd);
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

// to[j * to_row + i] = lane j of rows[i], j < columns.
inline constexpr int64_t kTransposedRows = 16;
[[gnu::always_inline]] inline void store_transposed(float* to, int64_t to_row, const V (&rows)[16],
                                                    int64_t columns) {
  VI block[16];
  for (int i = 0; i < 16; ++i) block[i] = bits_of(rows[i]);
  transpose(block);
  for (int64_t j = 0; j < columns; ++j) store(to + j * to_row, float_of(block[j]));
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
