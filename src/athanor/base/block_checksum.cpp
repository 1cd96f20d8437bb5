#include "athanor/base/block_checksum.h"

#include <cstring>

namespace athanor::base {
namespace {

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t finish_block(uint64_t sum, uint64_t index, uint64_t size_bytes) {
  return mix(mix(sum + (index + 1) * 0x9e3779b97f4a7c15u) ^ size_bytes);
}

uint64_t block_checksum(const void* block, size_t size_bytes, uint64_t index) {
  const auto* bytes = static_cast<const unsigned char*>(block);
  const size_t words = size_bytes / sizeof(uint32_t);
  uint64_t sum = 0;
  for (size_t i = 0; i < words; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, bytes + i * sizeof(word), sizeof(word));
    sum += uint64_t{word} * block_weight(i);
  }
  if (const size_t rest = size_bytes % sizeof(uint32_t); rest > 0) {
    uint32_t word = 0;
    std::memcpy(&word, bytes + words * sizeof(word), rest);
    sum += uint64_t{word} * block_weight(words);
  }
  return finish_block(sum, index, size_bytes);
}

}  // namespace athanor::base
