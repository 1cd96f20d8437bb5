// The weighted sum of base/block_checksum.h over vectors that are in registers.
//
//   BlockSum sum = zero_block_sum();
//   for_vectors(n, [&](int64_t i, auto part) { sum = add_words(sum, x, part); });   // from the start of a block
//   const uint64_t total = total_of(sum);
#pragma once

#include "athanor/base/block_checksum.h"  // for its constants: an inline function of it would be compiled here
#include "athanor/kernels/cpu/simd/vec.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

// The lanes of `part` of x.
template <typename Part>
[[gnu::always_inline]] inline BlockSum add_words(BlockSum sum, V x, Part part) {
  return add_numbers(sum, bits_of(keep(x, part, zero())));
}

inline uint64_t total_of(BlockSum block_sum) {
  uint64_t sums[4], sums_of_sums[4], total = 0;
  store_lanes(block_sum, sums, sums_of_sums);
  for (int lane = 0; lane < 4; ++lane) total += kBlockWeights[lane] * sums[lane] + 2 * sums_of_sums[lane];
  return total;
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
