#include <cstring>

#include "athanor/parallel/compression/block_code.h"
#include "athanor/tensor/dtype.h"

namespace athanor::parallel::compression {
namespace {

void encode_bf16(const float* x, int64_t count, std::byte* code) {
  Bf16 rounded[kCodeBlock] = {};
  for (int64_t i = 0; i < count; ++i) rounded[i] = from_float<Bf16>(x[i]);
  std::memcpy(code, rounded, sizeof(rounded));
}

void decode_bf16(const std::byte* code, int64_t count, float* y) {
  Bf16 rounded[kCodeBlock];
  std::memcpy(rounded, code, sizeof(rounded));
  for (int64_t i = 0; i < count; ++i) y[i] = to_float(rounded[i]);
}

}  // namespace

const BlockCode& bf16_code() {
  static constexpr BlockCode code{"bf16", kCodeBlock * 2, encode_bf16, decode_bf16};
  return code;
}

}  // namespace athanor::parallel::compression
