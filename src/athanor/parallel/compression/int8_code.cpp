#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "athanor/parallel/compression/block_code.h"

namespace athanor::parallel::compression {
namespace {

constexpr uint32_t kInfinity = 0x7f800000u;

struct Int8Block {
  float scale = 0.0f;
  int8_t steps[kCodeBlock] = {};
};

// As integers the bits of magnitudes compare like the numbers, and NaN is above infinity.
float scale_of(const float* x, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  if (largest >= kInfinity) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(largest) / 127.0f;
}

// In a block of denormals the scale s may round to zero, or down so far that x / s is above 127.
void encode_int8(const float* x, int64_t count, std::byte* code) {
  Int8Block block{.scale = scale_of(x, count)};
  if (block.scale > 0.0f)
    for (int64_t i = 0; i < count; ++i)
      block.steps[i] = static_cast<int8_t>(std::clamp(std::nearbyint(x[i] / block.scale), -127.0f, 127.0f));
  std::memcpy(code, &block, sizeof(block));
}

void decode_int8(const std::byte* code, int64_t count, float* y) {
  Int8Block block;
  std::memcpy(&block, code, sizeof(block));
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(block.steps[i]) * block.scale;
}

}  // namespace

const BlockCode& int8_code() {
  static constexpr BlockCode code{"int8", sizeof(Int8Block), encode_int8, decode_int8};
  return code;
}

}  // namespace athanor::parallel::compression
