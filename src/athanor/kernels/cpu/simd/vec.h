// Sixteen f32 lanes on every instruction set: one AVX-512 register or two of AVX2. So a sum has the same lanes, folded
// in the same order, and the same bits on both.
//
// Elements are float, Bf16 or F16; arithmetic is f32. Everything here has internal linkage (see rows.h).
#pragma once

#ifdef __AVX512F__
#include "athanor/kernels/cpu/simd/vec_avx512.h"
#else
#include "athanor/kernels/cpu/simd/vec_avx2.h"
#endif

namespace athanor::kernels::ATHANOR_ISA {
namespace {

inline constexpr int64_t kLanes = 16;

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
struct Full {};
struct Tail {
  Mask mask;
};

inline V zero() {
  return set1(0.f);
}
inline V minus_abs(V a) {
  return float_of(bits_of(a) | set1i(0x80000000u));
}

inline V from_bf16(VI low) {
  return float_of(shift_left<16>(low));
}
inline VI to_bf16(V a) {  // nearest even; a NaN stays one
  const VI bits = bits_of(a), high = shift_right<16>(bits);
  const VI rounded = shift_right<16>(bits + set1i(0x7fff) + (high & set1i(1)));
  return select(is_nan(a), high | set1i(0x40), rounded);
}

inline V load(const float* p, Full) {
  return load(p);
}
inline V load(const float* p, Tail tail) {
  return load(p, tail.mask);
}
inline V load(const Bf16* p, Full) {
  return from_bf16(load16(&p->bits));
}
inline V load(const Bf16* p, Tail tail) {
  return from_bf16(load16(&p->bits, tail.mask));
}
inline V load(const F16* p, Full) {
  return from_half(load16(&p->bits));
}
inline V load(const F16* p, Tail tail) {
  return from_half(load16(&p->bits, tail.mask));
}
inline void store(float* p, V a, Full) {
  store(p, a);
}
inline void store(float* p, V a, Tail tail) {
  store(p, a, tail.mask);
}
#ifdef __AVX512BF16__
inline __m256i bf16_lanes(V a) {  // as to_bf16, but values below 2^-126 become zero
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a.x));
}
inline void store(Bf16* p, V a, Full) {
  _mm256_storeu_epi16(&p->bits, bf16_lanes(a));
}
inline void store(Bf16* p, V a, Tail tail) {
  _mm256_mask_storeu_epi16(&p->bits, tail.mask.m, bf16_lanes(a));
}
#else
inline void store(Bf16* p, V a, Full) {
  store16(&p->bits, to_bf16(a));
}
inline void store(Bf16* p, V a, Tail tail) {
  store16(&p->bits, to_bf16(a), tail.mask);
}
#endif
inline void store(F16* p, V a, Full) {
  store16(&p->bits, to_half(a));
}
inline void store(F16* p, V a, Tail tail) {
  store16(&p->bits, to_half(a), tail.mask);
}

// The lanes of `part`, the others `other`.
inline V keep(V a, Full, V) {
  return a;
}
inline V keep(V a, Tail tail, V other) {
  return select(tail.mask, a, other);
}

inline __m128 upper_pair(__m128 a) {
  return _mm_movehl_ps(a, a);
}
inline __m128 second(__m128 a) {
  return _mm_shuffle_ps(a, a, 1);
}
inline float first_lane(V a) {
  return _mm256_cvtss_f32(low_half(a));
}
inline float sum_lanes(V a) {
  const __m256 eight = _mm256_add_ps(low_half(a), high_half(a));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, upper_pair(four));
  return _mm_cvtss_f32(_mm_add_ss(two, second(two)));
}
inline float max_lanes(V a) {
  const __m256 eight = _mm256_max_ps(low_half(a), high_half(a));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, upper_pair(four));
  return _mm_cvtss_f32(_mm_max_ss(two, second(two)));
}
inline double sum_lanes(VD a) {
  const __m256d four = fold(a);
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
