// Small products one after the other, as in amx/tile_products.h, with the bf16 instructions of AVX-512 in place of
// tiles.
#pragma once

#include "athanor/kernels/cpu/avx512_bf16/unit_products.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

// c = (`starts`) or += the sum over steps of a . b. Operands are units as in bf16/pack.h, one unit a step; c is 32 x 32
// f32.
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
    if (product.steps == 0) return;
    for (int64_t row = 0; row < kSide; row += kRegisterRows) {
      float* const c = product.c + row * kSide;
      RowSums sums{};
      if (!product.starts) {
#pragma GCC unroll 8
        for (int64_t i = 0; i < kRegisterRows; ++i) {
          sums.left[i] = _mm512_load_ps(c + i * kSide);
          sums.right[i] = _mm512_load_ps(c + i * kSide + 16);
        }
      }
      add_products(sums, product.a + row * kSide, kSide, kUnit, product.b, product.steps);
#pragma GCC unroll 8
      for (int64_t i = 0; i < kRegisterRows; ++i) {
        _mm512_store_ps(c + i * kSide, sums.left[i]);
        _mm512_store_ps(c + i * kSide + 16, sums.right[i]);
      }
    }
  }
  void finish() {}  // results are in memory
};

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
