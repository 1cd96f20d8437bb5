#include "athanor/base/philox.h"

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/base/cpu.h"
#include "athanor/base/hash.h"
#include "athanor/base/random_rows.h"

namespace athanor::base {

RandomStream::RandomStream(uint64_t seed, std::string_view name) : key_(hash64(name, seed)) {}

namespace {
const RandomRows& rows() {
  return best_isa() >= Isa::avx512 ? avx512_random_rows
         : best_isa() >= Isa::avx2 ? avx2_random_rows
                                   : generic_random_rows;
}
}  // namespace

float RandomStream::normal(uint64_t element, uint64_t step) const {
  const Philox4 words = block(element / 4, step);
  float pair[2];
  generic_random_rows.normals(words.data() + element % 4 / 2 * 2, 1, 1.0f, pair);
  return pair[element % 2];
}

void RandomStream::fill_normal(float* out, uint64_t first, uint64_t count, float std) const {
  constexpr uint64_t kBlocks = 128;  // at a time: their words stay in the first-level cache
  const uint64_t last = first + count;
  for (; first < last && first % 4 != 0; ++first) *out++ = std * normal(first, 0);
  while (last - first >= 4) {
    const uint64_t blocks = std::min(kBlocks, (last - first) / 4);
    uint32_t words[4 * kBlocks];
    rows().blocks(key_, first / 4, blocks, words);
    rows().normals(words, 2 * blocks, std, out);
    first += 4 * blocks;
    out += 4 * blocks;
  }
  for (; first < last; ++first) *out++ = std * normal(first, 0);
}

Permutation::Permutation(uint64_t size, uint64_t key) : size_(size), key_(key), half_bits_(1) {
  check(size > 0, "permutation: size must be at least 1");
  while (half_bits_ < 32 && (uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
}

uint64_t Permutation::operator()(uint64_t index) const {
  check(index < size_, "permutation: index {} is outside [0, {})", index, size_);
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  do {
    uint64_t left = index >> half_bits_, right = index & mask;
    for (uint32_t round = 0; round < 4; ++round) {
      const Philox4 words = philox4x32(
          {static_cast<uint32_t>(right), static_cast<uint32_t>(right >> 32), round, 0x46454953u}, key_);
      const uint64_t next = (left ^ words[0]) & mask;
      left = right;
      right = next;
    }
    index = (left << half_bits_) | right;
  } while (index >= size_);
  return index;
}

}  // namespace athanor::base
