#include "athanor/base/philox.h"

#include <cmath>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor {

RandomStream::RandomStream(uint64_t seed, std::string_view name) : key_(hash64(name, seed)) {}

namespace {
std::array<float, 2> box_muller(uint32_t a, uint32_t b) {
  const double u = (static_cast<double>(a) + 1.0) * 0x1p-32;  // (0, 1]
  const double angle = static_cast<double>(b) * (0x1p-32 * 6.283185307179586);
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}
}  // namespace

float RandomStream::normal(uint64_t element, uint64_t step) const {
  const Philox4 words = block(element / 4, step);
  const size_t pair = element % 4 / 2 * 2;
  return box_muller(words[pair], words[pair + 1])[element % 2];
}

void RandomStream::fill_normal(float* out, uint64_t first, uint64_t count, float std) const {
  for (uint64_t i = 0; i < count;) {
    const uint64_t element = first + i;
    if (element % 4 != 0 || count - i < 4) {
      out[i++] = std * normal(element, 0);
      continue;
    }
    const Philox4 words = block(element / 4, 0);
    for (size_t pair = 0; pair < 4; pair += 2)
      for (const float value : box_muller(words[pair], words[pair + 1])) out[i++] = std * value;
  }
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

}  // namespace athanor
