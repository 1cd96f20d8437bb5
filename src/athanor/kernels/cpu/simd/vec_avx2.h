// The vectors of vec.h as two 256-bit registers.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

struct V {
  __m256 a, b;  // lanes 0-7, 8-15
};
struct VI {
  __m256i a, b;
};
struct Mask {  // all bits of a chosen lane
  __m256 a, b;
};
struct VD {  // 16 doubles
  __m256d a, b, c, d;
};

inline V set1(float v) {
  return {_mm256_set1_ps(v), _mm256_set1_ps(v)};
}
inline VI set1i(uint32_t v) {
  const __m256i x = _mm256_set1_epi32(static_cast<int>(v));
  return {x, x};
}
inline V operator+(V x, V y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
inline V operator-(V x, V y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
inline V operator*(V x, V y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
inline V operator/(V x, V y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
inline V fma(V x, V y, V z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
inline V fnma(V x, V y, V z) {
  return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
}
inline V min(V x, V y) {
  return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
inline V max(V x, V y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
inline V sqrt(V x) {
  return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)};
}

inline VI operator+(VI x, VI y) {
  return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
inline VI operator-(VI x, VI y) {
  return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}
inline VI operator&(VI x, VI y) {
  return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
inline VI operator|(VI x, VI y) {
  return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
inline VI operator^(VI x, VI y) {
  return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
}
template <int kBits>
inline VI shift_left(VI x) {
  return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
}
template <int kBits>
inline VI shift_right(VI x) {
  return {_mm256_srli_epi32(x.a, kBits), _mm256_srli_epi32(x.b, kBits)};
}
inline VI bits_of(V x) {
  return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}
inline V float_of(VI x) {
  return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
inline V to_float(VI x) {
  return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}

inline Mask less(V x, V y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
inline Mask at_least(V x, V y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ)};
}
inline Mask is_nan(V x) {
  return {_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q)};
}
inline V select(Mask m, V yes, V no) {
  return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}
inline VI select(Mask m, VI yes, VI no) {
  return bits_of(select(m, float_of(yes), float_of(no)));
}
inline Mask first_lanes(int n) {
  const __m256i count = _mm256_set1_epi32(n), lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(count, lane)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, _mm256_add_epi32(lane, _mm256_set1_epi32(8))))};
}
// Lane i: bit i.
inline Mask lanes_of_bits(uint64_t bits) {
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128),
                all = _mm256_set1_epi32(static_cast<int>(bits));
  const __m256i low = _mm256_and_si256(all, lane), high = _mm256_and_si256(_mm256_srli_epi32(all, 8), lane);
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(low, lane)),
          _mm256_castsi256_ps(_mm256_cmpeq_epi32(high, lane))};
}

inline __m256 low_half(V x) {
  return x.a;
}
inline __m256 high_half(V x) {
  return x.b;
}

inline VD zero_doubles() {
  const __m256d zero = _mm256_setzero_pd();
  return {zero, zero, zero, zero};
}
inline __m256d add_squares(__m256d sum, __m128 x) {
  const __m256d wide = _mm256_cvtps_pd(x);
  return _mm256_fmadd_pd(wide, wide, sum);
}
inline VD add_squares(VD sum, V x) {
  return {add_squares(sum.a, _mm256_castps256_ps128(x.a)), add_squares(sum.b, _mm256_extractf128_ps(x.a, 1)),
          add_squares(sum.c, _mm256_castps256_ps128(x.b)), add_squares(sum.d, _mm256_extractf128_ps(x.b, 1))};
}
inline VD operator+(VD x, VD y) {
  return {_mm256_add_pd(x.a, y.a), _mm256_add_pd(x.b, y.b), _mm256_add_pd(x.c, y.c), _mm256_add_pd(x.d, y.d)};
}
inline __m256d fold(VD x) {
  return _mm256_add_pd(_mm256_add_pd(x.a, x.c), _mm256_add_pd(x.b, x.d));
}

inline const __m256i* as_vector(const void* p) {
  return static_cast<const __m256i*>(p);
}
inline __m256i* as_vector(void* p) {
  return static_cast<__m256i*>(p);
}
inline V load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline V load(const float* p, Mask m) {
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.a)),
          _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.b))};
}
inline void store(float* p, V x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
inline void store(float* p, V x, Mask m) {
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.a), x.a);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.b), x.b);
}
inline void stream(float* p, V x) {  // past the caches; aligned to 32 bytes
  _mm256_stream_ps(p, x.a);
  _mm256_stream_ps(p + 8, x.b);
}
inline void store(uint32_t* p, VI x) {
  _mm256_storeu_si256(as_vector(p), x.a);
  _mm256_storeu_si256(as_vector(p + 8), x.b);
}

// Sixteen 16-bit values in the low halves of the lanes. There are no masked moves of 16-bit lanes: element by
// element.
inline VI load16(const uint16_t* p) {
  const __m256i x = _mm256_loadu_si256(as_vector(p));
  return {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)),
          _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1))};
}
inline int count_lanes(Mask m) {
  return __builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(m.a) | _mm256_movemask_ps(m.b) << 8));
}
inline VI load16(const uint16_t* p, Mask m) {
  uint16_t lanes[16] = {};
  for (int i = 0, n = count_lanes(m); i < n; ++i) lanes[i] = p[i];
  return load16(lanes);
}
inline void store16(uint16_t* p, VI x) {
  const __m256i low = _mm256_set1_epi32(0xffff);
  const __m256i packed = _mm256_packus_epi32(_mm256_and_si256(x.a, low), _mm256_and_si256(x.b, low));
  _mm256_storeu_si256(as_vector(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
inline void store16(uint16_t* p, VI x, Mask m) {
  uint16_t lanes[16];
  store16(lanes, x);
  for (int i = 0, n = count_lanes(m); i < n; ++i) p[i] = lanes[i];
}
inline __m128i narrow(__m256i x) {
  return _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}
inline V from_half(VI x) {
  return {_mm256_cvtph_ps(narrow(x.a)), _mm256_cvtph_ps(narrow(x.b))};
}
inline VI to_half(V x) {
  return {_mm256_cvtepu16_epi32(_mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT)),
          _mm256_cvtepu16_epi32(_mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT))};
}

// a * b as 64 bits per lane, in two vectors of 32-bit lanes.
inline void multiply_wide(__m256i a, __m256i b, __m256i& high, __m256i& low) {
  const __m256i even = _mm256_mul_epu32(a, b);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
  high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
  low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
inline void multiply_wide(VI x, VI y, VI& high, VI& low) {
  multiply_wide(x.a, y.a, high.a, low.a);
  multiply_wide(x.b, y.b, high.b, low.b);
}

// Of 64-bit numbers, of which each adds its upper half to itself: sums in four lanes, and sums of these sums.
struct BlockSum {
  __m256i sums, sums_of_sums;
};
inline BlockSum zero_block_sum() {
  return {_mm256_setzero_si256(), _mm256_setzero_si256()};
}
inline BlockSum add_numbers(BlockSum to, __m256i numbers) {
  const __m256i sums = _mm256_add_epi64(to.sums, _mm256_add_epi64(numbers, _mm256_srli_epi64(numbers, 32)));
  return {sums, _mm256_add_epi64(to.sums_of_sums, sums)};
}
inline BlockSum add_numbers(BlockSum to, VI x) {
  return add_numbers(add_numbers(to, x.a), x.b);
}
inline void store_lanes(BlockSum from, uint64_t (&sums)[4], uint64_t (&sums_of_sums)[4]) {
  _mm256_storeu_si256(as_vector(sums), from.sums);
  _mm256_storeu_si256(as_vector(sums_of_sums), from.sums_of_sums);
}

// Transposes 4 x 4 blocks: lane 4 L + i of out[j] is lane 4 L + j of in[i].
inline void transpose_quads(__m256i x, __m256i y, __m256i z, __m256i w, __m256i& o0, __m256i& o1, __m256i& o2,
                            __m256i& o3) {
  const __m256i xy0 = _mm256_unpacklo_epi32(x, y), xy1 = _mm256_unpackhi_epi32(x, y);
  const __m256i zw0 = _mm256_unpacklo_epi32(z, w), zw1 = _mm256_unpackhi_epi32(z, w);
  o0 = _mm256_unpacklo_epi64(xy0, zw0);
  o1 = _mm256_unpackhi_epi64(xy0, zw0);
  o2 = _mm256_unpacklo_epi64(xy1, zw1);
  o3 = _mm256_unpackhi_epi64(xy1, zw1);
}
inline void transpose_quads(const VI (&in)[4], VI (&out)[4]) {
  transpose_quads(in[0].a, in[1].a, in[2].a, in[3].a, out[0].a, out[1].a, out[2].a, out[3].a);
  transpose_quads(in[0].b, in[1].b, in[2].b, in[3].b, out[0].b, out[1].b, out[2].b, out[3].b);
}

// Eight rows of eight columns, of which as many as `columns` are stored.
[[gnu::always_inline]] inline void store_transposed(float* to, int64_t to_row, const __m256i (&rows)[8],
                                                    int64_t columns) {
  __m256i upper[4], lower[4];  // upper[j] has columns j and 4 + j of the first four rows
  transpose_quads(rows[0], rows[1], rows[2], rows[3], upper[0], upper[1], upper[2], upper[3]);
  transpose_quads(rows[4], rows[5], rows[6], rows[7], lower[0], lower[1], lower[2], lower[3]);
  for (int64_t j = 0; j < 4; ++j) {
    const __m256i left = _mm256_permute2x128_si256(upper[j], lower[j], 0x20);
    const __m256i right = _mm256_permute2x128_si256(upper[j], lower[j], 0x31);
    if (j < columns) _mm256_storeu_si256(as_vector(to + j * to_row), left);
    if (4 + j < columns) _mm256_storeu_si256(as_vector(to + (4 + j) * to_row), right);
  }
}

// to[j * to_row + i] = lane j of rows[i], j < columns. There are not registers enough for sixteen rows.
inline constexpr int64_t kTransposedRows = 8;
[[gnu::always_inline]] inline void store_transposed(float* to, int64_t to_row, const V (&rows)[8],
                                                    int64_t columns) {
  __m256i left[8], right[8];
  for (int i = 0; i < 8; ++i) left[i] = bits_of(rows[i]).a;
  for (int i = 0; i < 8; ++i) right[i] = bits_of(rows[i]).b;
  store_transposed(to, to_row, left, columns);
  store_transposed(to + 8 * to_row, to_row, right, columns - 8);
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
