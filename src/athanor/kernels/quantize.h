// 8-bit optimizer state (Dettmers et al., "8-bit optimizers via block-wise quantization", 2022). A block of
// kQuantizeBlock elements has one f32 scale, the largest magnitude of the block. An element is stored as the 8-bit code
// whose value times the scale is nearest to it.
//
//   encode   codes [n] u8, scales [ceil(n / kQuantizeBlock)] f32 of x [n] f32, x finite
//   decode   x from codes and scales
//
// Codes are dynamic: decade e = 0 ... 6 below the scale has 2^(6-e) values (CodeMap::root: twice as many), spread
// evenly in (0.1, 1] * 10^-e. A large element is known to 1 % and an element a millionth of it still differs from zero.
//
//   CodeMap::plain   both signs: 127 values each
//   CodeMap::root    x >= 0; the square root of x is stored, with 254 values. For a sum of squares, whose root the
//                    optimizer divides by: x > 0 never gets code 0, except below kQuantizeTiny.
//
// decode(encode(x)) encodes to the same codes and scales again, so a checkpoint may keep the decoded values. For that,
// values (of CodeMap::root: roots) below kQuantizeTiny become zero: smaller ones have no square in f32.
#pragma once

#include <cstdint>

#include "athanor/kernels/elementwise.h"
#include "athanor/tensor/forward.h"

namespace athanor::kernels {

// Shards of a tensor begin at multiples of kNormBlock, so a block never spans two ranks.
constexpr int64_t kQuantizeBlock = kNormBlock;
constexpr float kQuantizeTiny = 1e-18f;

enum class CodeMap : uint8_t { plain, root };

struct QuantizeKernels {
  void (*encode)(Queue&, Tensor& codes, Tensor& scales, const Tensor& x, CodeMap map);
  void (*decode)(Queue&, Tensor& x, const Tensor& codes, const Tensor& scales, CodeMap map);
};

}  // namespace athanor::kernels
