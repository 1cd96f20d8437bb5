// The checksum of a block of memory of constant size, which a kernel can take while the values are in registers.
//
//   uint64_t sum = 0;                                               // by words, in any order, by any number of threads
//   for (uint64_t i = 0; i < count; ++i) sum += uint64_t{words[i]} * block_weight(i);
//   const uint64_t checksum = finish_block(sum, index, 4 * count);  // as block_checksum(words, 4 * count, index)
//
// Definition. A block of n bytes is the 32-bit little-endian words w[0], w[1], ..., the last one filled up with zeros.
//
//   weight(i) = (i + 1) * 0x9e3779b1 mod 2^32
//   sum       = w[0] weight(0) + w[1] weight(1) + ...   mod 2^64
//   checksum  = mix(mix(sum + (index + 1) * 0x9e3779b97f4a7c15) ^ n)
//   mix(x)    : x ^= x >> 30;  x *= 0xbf58476d1ce4e5b9;  x ^= x >> 27;  x *= 0x94d049bb133111eb;  x ^= x >> 31
//
// The weights of a block differ from each other and from 0, since the factor is odd. So the sum changes with any one
// word (a difference below 2^32 times a weight below 2^32 is not 0 mod 2^64) and with any swap of two unequal words
// (the product of both differences, likewise). mix is a bijection: of two blocks of equal size, what changes the sum or
// the index alone changes the checksum. Other damage passes with a chance of about 2^-60. It is no protection from intent.
// Source of mix: Stafford's variant 13, the finalizer of SplitMix64 (Steele, Lea, Flood, 2014).
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::base {

constexpr uint64_t kChecksumBlockBytes = 65536;
constexpr uint32_t kBlockWeight = 0x9e3779b1u;

constexpr uint32_t block_weight(uint64_t word) {
  return static_cast<uint32_t>(word + 1) * kBlockWeight;
}

// `index`: the number of the block in its sequence.
uint64_t finish_block(uint64_t sum, uint64_t index, uint64_t size_bytes);
uint64_t block_checksum(const void* block, size_t size_bytes, uint64_t index);

// Of memory of any size in blocks of kChecksumBlockBytes, the last one shorter; numbered from 0.
constexpr uint64_t num_checksum_blocks(uint64_t size_bytes) {
  return (size_bytes + kChecksumBlockBytes - 1) / kChecksumBlockBytes;
}

}  // namespace athanor::base
