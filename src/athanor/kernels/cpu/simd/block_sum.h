// The weighted sums of base/block_checksum.h over vectors that are in registers. The sum is one of integers, so its lanes
// may be added in any order.
//
//   Weights weights = first_weights();
//   WordSum sum = zero_sum();
//   for_vectors(n, [&](int64_t i, auto part) { sum = add_words(sum, x, part, weights);  weights = next(weights); });
//   const uint64_t total = sum_lanes(sum);
#pragma once

#include "athanor/base/block_checksum.h"  // for its constants: an inline function of it would be compiled here
#include "athanor/kernels/cpu/simd/vec.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

struct Weights {
  VI all, odd;  // of the words of a vector
};

inline Weights weights_of(VI all) {
  return {all, odd_lanes(all)};
}
inline Weights first_weights() {
  uint32_t lanes[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) lanes[i] = (i + 1) * kBlockWeight;
  return weights_of(bits_of(load(reinterpret_cast<const float*>(lanes))));
}
inline Weights next(Weights weights) {
  return weights_of(weights.all + set1i(uint32_t{kLanes} * kBlockWeight));
}

// The lanes of `part` of x.
template <typename Part>
[[gnu::always_inline]] inline WordSum add_words(WordSum sum, V x, Part part, Weights weights) {
  const VI words = bits_of(keep(x, part, zero()));
  sum = add_products_of_even_lanes(sum, words, weights.all);
  return add_products_of_even_lanes(sum, odd_lanes(words), weights.odd);
}

inline uint64_t sum_lanes(WordSum sum) {
  const __m256i four = fold(sum);
  const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  return static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))));
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
