// Block codes: lossy compression of blocks of up to 256 floats into a fixed number of bytes, so that blocks can be
// partitioned over ranks.
//
//   const BlockCode& code = int8_code();
//   code.encode(x, count, bytes);     // count <= kCodeBlock; writes code.bytes bytes
//   code.decode(bytes, count, y);
//
//   bf16     512 bytes  each element rounded to nearest even
//   int8     260 bytes  f32 s = max |x| / 127, then round(x / s) in -127 ... 127 (ties to even)
//   one bit   36 bytes  f32 s = mean |x|, then a bit for each element: x < 0; decodes to -s or s (Seide et al.,
//                       "1-bit stochastic gradient descent", Interspeech 2014; the scale as in 1-bit Adam)
//
// If an element is NaN or infinite, the whole block decodes to such elements (bf16: that element only). Decoding is
// exact arithmetic: every rank gets the same bits. Little-endian. Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::parallel::compression {

constexpr int64_t kCodeBlock = 256;  // elements

struct BlockCode {
  const char* name;
  int64_t bytes;  // of an encoded block, also of one with fewer elements
  void (*encode)(const float* x, int64_t count, std::byte* code);
  void (*decode)(const std::byte* code, int64_t count, float* y);
};

const BlockCode& bf16_code();
const BlockCode& int8_code();
const BlockCode& onebit_code();

}  // namespace athanor::parallel::compression
