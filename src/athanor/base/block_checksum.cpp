#include "athanor/base/block_checksum.h"

#include <cstring>

namespace athanor::base {
namespace {

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * kBlockWeights[1];
  x = (x ^ (x >> 27)) * kBlockWeights[2];
  return x ^ (x >> 31);
}

// The sums of four lanes, and the sums of these after every step.
struct Lanes {
  void add(const unsigned char* four_numbers) {
    for (size_t lane = 0; lane < 4; ++lane) {
      uint64_t number = 0;
      std::memcpy(&number, four_numbers + lane * sizeof(number), sizeof(number));
      sums[lane] += fold_number(number);
      sums_of_sums[lane] += sums[lane];
    }
  }
  uint64_t total() const {
    uint64_t total = 0;
    for (size_t lane = 0; lane < 4; ++lane)
      total += kBlockWeights[lane] * sums[lane] + 2 * sums_of_sums[lane];
    return total;
  }
  uint64_t sums[4] = {}, sums_of_sums[4] = {};
};

}  // namespace

uint64_t finish_block(uint64_t sum, uint64_t index, uint64_t size_bytes) {
  return mix(mix(sum + (index + 1) * kBlockWeights[0]) ^ size_bytes);
}

uint64_t block_checksum(const void* block, size_t size_bytes, uint64_t index) {
  constexpr size_t kStep = 32, kUnit = 64;
  const auto* bytes = static_cast<const unsigned char*>(block);
  const size_t whole = size_bytes / kUnit * kUnit;
  Lanes lanes;
  for (size_t at = 0; at < whole; at += kStep) lanes.add(bytes + at);
  if (whole < size_bytes) {
    unsigned char rest[kUnit] = {};
    std::memcpy(rest, bytes + whole, size_bytes - whole);
    lanes.add(rest);
    lanes.add(rest + kStep);
  }
  return finish_block(lanes.total(), index, size_bytes);
}

}  // namespace athanor::base
