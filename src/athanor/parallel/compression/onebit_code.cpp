#include <bit>
#include <cmath>
#include <cstring>

#include "athanor/parallel/compression/block_code.h"

namespace athanor::parallel::compression {
namespace {

struct OneBitBlock {
  float scale = 0.0f;
  uint8_t bits[kCodeBlock / 8] = {};
};

void encode_onebit(const float* x, int64_t count, std::byte* code) {
  OneBitBlock block;
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    uint8_t& eight = block.bits[i / 8];
    sum += std::abs(static_cast<double>(x[i]));
    eight = static_cast<uint8_t>(eight | (unsigned{x[i] < 0.0f} << (i % 8)));
  }
  block.scale = static_cast<float>(sum / static_cast<double>(count));
  std::memcpy(code, &block, sizeof(block));
}

void decode_onebit(const std::byte* code, int64_t count, float* y) {
  OneBitBlock block;
  std::memcpy(&block, code, sizeof(block));
  for (int64_t i = 0; i < count; ++i) y[i] = (block.bits[i / 8] >> (i % 8)) & 1u ? -block.scale : block.scale;
}

}  // namespace

const BlockCode& onebit_code() {
  static constexpr BlockCode code{"one bit", sizeof(OneBitBlock), encode_onebit, decode_onebit};
  return code;
}

}  // namespace athanor::parallel::compression
