// Optimizer state in 8 bits a value (Dettmers et al., "8-bit optimizers via block-wise quantization", 2022): blocks of
// kQuantizeBlock elements, each with the largest magnitude of its elements as an f32 scale; an element is the code
// whose value times the scale is nearest. Codes are dynamic: decade e = 0 ... 6 below the scale has 2^(6-e) values
// evenly in (0.1, 1] * 10^-e, so a large element is known to 1 % and one a millionth of it is still told from zero.
//
//   encode   codes [n] u8, scales [ceil(n / block)] f32 of x [n] f32, x finite
//   decode   x from codes and scales
//
//   CodeMap::plain   both signs: 127 values each
//   CodeMap::root    x >= 0, of which the square root is coded, with 254 values: for a sum of squares, whose root is
//                    what an optimizer divides by. What is not zero never becomes zero: the divisor would vanish.
//
// decode(encode(x)) encoded again has the same codes and scales, so a checkpoint may keep the decoded values. For that,
// values (of CodeMap::root: roots) below kQuantizeTiny are zero: smaller ones have no square in f32.
#pragma once

#include <cstdint>

#include "athanor/kernels/elementwise.h"

namespace athanor {

class Queue;
class Tensor;

// That of norms: a tensor is cut into shards at its multiples, so a block is whole on one rank.
constexpr int64_t kQuantizeBlock = kNormBlock;
constexpr float kQuantizeTiny = 1e-18f;

enum class CodeMap : uint8_t { plain, root };

struct QuantizeKernels {
  void (*encode)(Queue&, Tensor& codes, Tensor& scales, const Tensor& x, CodeMap map);
  void (*decode)(Queue&, Tensor& x, const Tensor& codes, const Tensor& scales, CodeMap map);
};

}  // namespace athanor
