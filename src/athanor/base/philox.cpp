#include "athanor/base/philox.h"

#include <cmath>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor {

RandomStream::RandomStream(uint64_t seed, std::string_view name) : key_(hash64(name, seed)) {}

float RandomStream::normal(uint64_t element, uint64_t step) const {
  // A block gives two uniforms in double precision, hence two normals: elements 2b and 2b+1.
  const Philox4 words = block(element / 2, step);
  const double u = (static_cast<double>(words[0]) + 1.0) * 0x1p-32;  // (0, 1]
  const double v = static_cast<double>(words[1]) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  const double angle = 6.283185307179586 * v;
  return static_cast<float>(radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle)));
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
      const Philox4 words =
          philox4x32({static_cast<uint32_t>(right), static_cast<uint32_t>(right >> 32), round, 0x46454953u}, key_);
      const uint64_t next = (left ^ words[0]) & mask;
      left = right;
      right = next;
    }
    index = (left << half_bits_) | right;
  } while (index >= size_);
  return index;
}

}  // namespace athanor
