// The checksum of a block of memory of constant size, which a kernel can take while the values are in registers.
//
//   uint64_t sum = 0;                                              // a vectorized loop keeps four pairs of running sums
//   for (uint64_t k = 0; k < num_numbers; ++k) sum += fold_number(numbers[k]) * block_weight(k, num_numbers);
//   const uint64_t checksum = finish_block(sum, index, size_bytes);   // as block_checksum(numbers, size_bytes, index)
//
// Definition. A block of n bytes, filled up with zeros to a multiple of 64, is the 64-bit little-endian numbers q[0] ...
// q[K - 1].
//
//   weight(k) = a[k mod 4] + 2 (K / 4 - floor(k / 4))
//   sum       = the sum of (q[k] + floor(q[k] / 2^32)) weight(k)   mod 2^64
//   checksum  = mix(mix(sum + (index + 1) a[0]) ^ n)
//   mix(x)    : x ^= x >> 30;  x *= a[1];  x ^= x >> 27;  x *= a[2];  x ^= x >> 31
//
// So four lanes each need the sum of their numbers and the sum of its values so far (Fletcher, 1982).
// The weights of a block are odd and differ from each other mod 2^32. A word of 32 bits counts weight(k) times, or
// (2^32 + 1) weight(k) times as the upper half of a number. So a change of one word changes the sum, and so does a swap of
// two unequal ones: their difference, below 2^32, meets a factor that 2^33 does not divide. mix is a bijection: of two
// blocks of equal size, what changes the sum or the index alone changes the checksum. Other damage passes with a chance of
// about 2^-60. It is no protection from intent.
// Source of mix: Stafford's variant 13, the finalizer of SplitMix64 (Steele, Lea, Flood, 2014).
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::base {

constexpr uint64_t kChecksumBlockBytes = 65536;
constexpr uint64_t kBlockWeights[4] = {0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu,
                                       0xd6e8feb86659fd93u};

constexpr uint64_t fold_number(uint64_t number) {
  return number + (number >> 32);
}
// `num_numbers`: of the block, a multiple of 8.
constexpr uint64_t block_weight(uint64_t k, uint64_t num_numbers) {
  return kBlockWeights[k % 4] + 2 * (num_numbers / 4 - k / 4);
}
constexpr uint64_t numbers_of_block(uint64_t size_bytes) {
  return (size_bytes + 63) / 64 * 8;
}

// `index`: the number of the block in its sequence.
uint64_t finish_block(uint64_t sum, uint64_t index, uint64_t size_bytes);
uint64_t block_checksum(const void* block, size_t size_bytes, uint64_t index);

// Of memory of any size in blocks of kChecksumBlockBytes, the last one shorter; numbered from 0.
constexpr uint64_t num_checksum_blocks(uint64_t size_bytes) {
  return (size_bytes + kChecksumBlockBytes - 1) / kChecksumBlockBytes;
}

}  // namespace athanor::base
