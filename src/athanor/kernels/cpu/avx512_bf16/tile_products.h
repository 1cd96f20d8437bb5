// What amx/tile_products.h does on tile registers, with AVX-512's bf16 products: small products, one after the other.
#pragma once

#include "athanor/kernels/cpu/avx512_bf16/unit_products.h"

namespace athanor::ATHANOR_ISA {
namespace {

// c = or += the sum over steps of a . b. Operands are units as in bf16/pack.h, one after the other for each step; c is
// 32 x 32 f32.
struct Product {
  const uint16_t *a, *b;
  float* c;
  int64_t steps;
  bool starts;
};

class TileProducts {
 public:
  // Without steps there is nothing to do, not even to clear c.
  void multiply(const Product& product) {
    constexpr ResultLayout kRows{kSide, 16, 16 * kSide};
    if (product.steps > 0)
      multiply_units<kRows>(product.c, product.a, product.b, product.steps, product.starts, [] {});
  }
  void finish() {}  // results are in memory
};

}  // namespace
}  // namespace athanor::ATHANOR_ISA
