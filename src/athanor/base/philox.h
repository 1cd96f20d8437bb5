// Counter-based random numbers (law 2): Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011). The key is (seed, name of the stream), the counter (element index, step). Element i of stream s at step t has
// the same bits in any layout and on any thread.
//
//   const RandomStream stream(seed, "blocks.3.attn.q.weight");
//   float u = stream.uniform(element_index, step);   // [0, 1)
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::base {

using Philox4 = std::array<uint32_t, 4>;

// One block of the generator: four words from a 128-bit counter and a 64-bit key.
constexpr Philox4 philox4x32(Philox4 counter, uint64_t key64) {
  uint32_t key[2] = {static_cast<uint32_t>(key64), static_cast<uint32_t>(key64 >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Element e of a stream is word e % 4 of block e / 4, so neighbours share the work of a block.
class RandomStream {
 public:
  RandomStream(uint64_t seed, std::string_view name);
  explicit RandomStream(uint64_t key) : key_(key) {}

  Philox4 block(uint64_t block_index, uint64_t step) const {
    return philox4x32({static_cast<uint32_t>(block_index), static_cast<uint32_t>(block_index >> 32),
                       static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)},
                      key_);
  }
  uint32_t word(uint64_t element, uint64_t step) const { return block(element / 4, step)[element % 4]; }
  float uniform(uint64_t element, uint64_t step) const {  // 24 bits, in [0, 1)
    return static_cast<float>(word(element, step) >> 8) * 0x1p-24f;
  }
  // Standard normal by Box-Muller: words 0 and 1 of a block give its elements 0 and 1, words 2 and 3 its elements 2 and
  // 3.
  float normal(uint64_t element, uint64_t step) const;
  // out[i] = std * normal(first + i, 0)
  void fill_normal(float* out, uint64_t first, uint64_t count, float std) const;
  uint64_t key() const { return key_; }

 private:
  uint64_t key_;
};

// A keyed permutation of [0, size), for shuffling with O(1) memory and no index built in advance (law 3): a Feistel
// network over the smallest even number of bits that holds size, applied until the result is inside [0, size) (Black &
// Rogaway, "Ciphers with arbitrary finite domains", 2002).
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t key);
  uint64_t operator()(uint64_t index) const;
  uint64_t size() const { return size_; }

 private:
  uint64_t size_, key_;
  int half_bits_;
};

}  // namespace athanor::base
