#include <bit>
#include <cmath>
#include <cstring>

#include "athanor/parallel/compression/block_code.h"

namespace athanor {
namespace {

constexpr int64_t kBytes = kCodeBlock / 8;

void encode(const float* x, int64_t count, std::byte* code) {
  uint8_t bits[kBytes] = {};
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    sum += std::abs(static_cast<double>(x[i]));
    bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (unsigned{x[i] < 0.0f} << (i % 8)));
  }
  const auto scale = static_cast<float>(sum / static_cast<double>(count));
  std::memcpy(code, &scale, sizeof(scale));
  std::memcpy(code + sizeof(scale), bits, sizeof(bits));
}

void decode(const std::byte* code, int64_t count, float* y) {
  float scale;
  uint8_t bits[kBytes];
  std::memcpy(&scale, code, sizeof(scale));
  std::memcpy(bits, code + sizeof(scale), sizeof(bits));
  for (int64_t i = 0; i < count; ++i) y[i] = (bits[i / 8] >> (i % 8)) & 1u ? -scale : scale;
}

}  // namespace

const BlockCode& onebit_code() {
  static constexpr BlockCode code{"one bit", kBytes + 4, encode, decode};
  return code;
}

}  // namespace athanor
