// A stream of small products on the tile registers, run step by step between other instructions: the tile
// unit works on its own while vectors are being computed, if it is given something often enough.
//
//   stream.push({.a = keys, .b = queries, .c = scores, .steps = d / 32, .starts = true});
//   for (...) { stream.advance(); ... vector arithmetic on the results of the product before ... }
//   stream.drain();
//
// Operands are units as in pack.h, one after the other for each step of 32 k; c is 32 x 32 f32.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "athanor/kernels/cpu/amx/pack.h"

namespace athanor::amx {
namespace {

struct Product {  // c = or += the sum over steps of a . b
  const uint16_t *a, *b;
  float* c;
  int64_t steps;
  bool starts;
};

class TileStream {
 public:
  TileStream() {
    struct alignas(64) Config {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static constexpr Config kConfig;
    _tile_loadconfig(&kConfig);
  }
  ~TileStream() { _tile_release(); }
  TileStream(const TileStream&) = delete;
  TileStream& operator=(const TileStream&) = delete;

  // Products run in the order in which they are pushed. Without steps there is nothing to do, not even to
  // clear c.
  [[gnu::always_inline]] void push(const Product& product) {
    if (product.steps == 0) return;
    if (end_ == kCapacity) drain();
    products_[end_++] = product;
    pending_ += product.steps;
  }
  int64_t pending() const { return pending_; }

  // One step of one product, if any is left.
  [[gnu::always_inline]] void advance() {
    if (next_ == end_) return;
    const Product& product = products_[next_];
    asm volatile("" ::
                     : "memory");  // tile loads read what was stored before, which the compiler does not know
    const uint16_t *a = product.a + step_ * kUnit, *b = product.b + step_ * kUnit;
    if (step_ == 0) {
      first_step(product, a, b);
    } else {
      _tile_loadd(6, b, 64);
      _tile_loadd(4, a, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + kUnit / 2, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, a + kUnit / 2, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    --pending_;
    if (++step_ < product.steps) return;
    step_ = 0;
    ++next_;
    done_ = product.c;
  }
  void drain() {
    while (pending_ > 0) advance();
    next_ = end_ = 0;
    _tile_stored(0, done_, kRowBytes);
    _tile_stored(1, done_ + 16, kRowBytes);
    _tile_stored(2, done_ + 16 * kSide, kRowBytes);
    _tile_stored(3, done_ + 16 * kSide + 16, kRowBytes);
    done_ = nowhere_;
  }

 private:
  static constexpr int64_t kCapacity = 64, kRowBytes = kSide * 4;

  // The tiles of the product before are stored here, one at a time: a burst of stores leaves the tile unit
  // idle.
  [[gnu::always_inline]] void first_step(const Product& product, const uint16_t* a, const uint16_t* b) {
    float *before = done_, *c = product.c;
    const bool starts = product.starts;
    _tile_loadd(6, b, 64);
    _tile_loadd(4, a, 64);
    _tile_stored(0, before, kRowBytes);
    if (starts)
      _tile_zero(0);
    else
      _tile_loadd(0, c, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + kUnit / 2, 64);
    _tile_stored(1, before + 16, kRowBytes);
    if (starts)
      _tile_zero(1);
    else
      _tile_loadd(1, c + 16, kRowBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kUnit / 2, 64);
    _tile_stored(2, before + 16 * kSide, kRowBytes);
    if (starts)
      _tile_zero(2);
    else
      _tile_loadd(2, c + 16 * kSide, kRowBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_stored(3, before + 16 * kSide + 16, kRowBytes);
    if (starts)
      _tile_zero(3);
    else
      _tile_loadd(3, c + 16 * kSide + 16, kRowBytes);
    _tile_dpbf16ps(3, 5, 7);
  }

  alignas(64) float nowhere_[kUnit];
  float* done_ = nowhere_;
  int64_t next_ = 0, end_ = 0, step_ = 0, pending_ = 0;
  Product products_[kCapacity];
};

// Spreads what is pending in a stream over `turns` calls of turn().
class Pace {
 public:
  Pace(TileStream& stream, int64_t turns) : stream_(stream), steps_(stream.pending()), turns_(turns) {}
  [[gnu::always_inline]] void turn() {
    for (due_ += steps_; due_ >= turns_; due_ -= turns_) stream_.advance();
  }

 private:
  TileStream& stream_;
  int64_t steps_, turns_, due_ = 0;
};

}  // namespace
}  // namespace athanor::amx
