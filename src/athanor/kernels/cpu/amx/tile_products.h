// Small products on the tile registers, one after the other: 32 x 32 results, a few steps of 32 k each.
//
//   TileProducts tiles;
//   for (...) tiles.multiply({.a = ..., .b = ..., .c = ..., .steps = n, .starts = true});
//   tiles.finish();      // now all results are in memory
//
// multiply() stores the result of the previous product between its own first instructions. Storing it at once would
// leave the tile unit idle for longer than a short product takes.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "athanor/kernels/cpu/amx/tile_config.h"
#include "athanor/kernels/cpu/bf16/pack.h"

namespace athanor::kernels::amx {
namespace {

// c = (`starts`) or += the sum over steps of a . b. Operands are units as in bf16/pack.h, one unit a step. c is 32 x 32
// f32 and must differ from the c of the previous product. Consecutive products should share b: a is loaded with a
// streaming hint and does not displace the first-level cache.
struct Product {
  const uint16_t *a, *b;
  float* c;
  int64_t steps;
  bool starts;
};

class TileProducts {
 public:
  TileProducts() { _tile_loadconfig(&kConfig); }
  ~TileProducts() { _tile_release(); }
  TileProducts(const TileProducts&) = delete;
  TileProducts& operator=(const TileProducts&) = delete;

  // Without steps there is nothing to do, not even to clear c.
  [[gnu::always_inline]] void multiply(const Product& product) {
    if (product.steps == 0) return;
    asm volatile("" ::
                     : "memory");  // tile loads read what was stored before, which the compiler does not know
    const uint16_t *a = product.a, *b = product.b;
    if (done_ == nullptr)
      first_step<false>(product);
    else
      first_step<true>(product);
    for (int64_t i = 1; i < product.steps; ++i) {
      a += kUnit;
      b += kUnit;
      _tile_loadd(6, b, 64);
      _tile_stream_loadd(4, a, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + kUnit / 2, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_stream_loadd(5, a + kUnit / 2, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    done_ = product.c;
  }
  [[gnu::always_inline]] void finish() {
    if (done_ == nullptr) return;
    _tile_stored(0, done_, kRowBytes);
    _tile_stored(1, done_ + 16, kRowBytes);
    _tile_stored(2, done_ + 16 * kSide, kRowBytes);
    _tile_stored(3, done_ + 16 * kSide + 16, kRowBytes);
    done_ = nullptr;
  }

 private:
  static constexpr int64_t kRowBytes = kSide * 4;

  template <bool kStore>
  [[gnu::always_inline]] void first_step(const Product& product) {
    const uint16_t *a = product.a, *b = product.b;
    float *before = done_, *c = product.c;
    const bool starts = product.starts;
    _tile_loadd(6, b, 64);
    _tile_stream_loadd(4, a, 64);
    if (kStore) _tile_stored(0, before, kRowBytes);
    if (starts)
      _tile_zero(0);
    else
      _tile_loadd(0, c, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + kUnit / 2, 64);
    if (kStore) _tile_stored(1, before + 16, kRowBytes);
    if (starts)
      _tile_zero(1);
    else
      _tile_loadd(1, c + 16, kRowBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_stream_loadd(5, a + kUnit / 2, 64);
    if (kStore) _tile_stored(2, before + 16 * kSide, kRowBytes);
    if (starts)
      _tile_zero(2);
    else
      _tile_loadd(2, c + 16 * kSide, kRowBytes);
    _tile_dpbf16ps(2, 5, 6);
    if (kStore) _tile_stored(3, before + 16 * kSide + 16, kRowBytes);
    if (starts)
      _tile_zero(3);
    else
      _tile_loadd(3, c + 16 * kSide + 16, kRowBytes);
    _tile_dpbf16ps(3, 5, 7);
  }

  float* done_ = nullptr;  // where to store the result that is still in the tiles; null: none
};

}  // namespace
}  // namespace athanor::kernels::amx
