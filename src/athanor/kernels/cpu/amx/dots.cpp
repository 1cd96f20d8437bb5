#include "athanor/kernels/cpu/dots_block.h"

#include "athanor/kernels/cpu/amx/tile_config.h"
#include "athanor/kernels/cpu/f32/write_row.h"
#include "athanor/kernels/cpu/simd/pack.h"

namespace athanor::kernels::amx {
namespace {

constexpr int64_t kDepth = 32;
constexpr int64_t kTile = kMostDotRows * kDepth;  // bf16 of a tile register
constexpr int64_t kSums = 256;                    // f32 of one
constexpr int64_t kRows = 16;                     // of b, in a tile
constexpr int64_t kAhead = 2 * kDotDepth;

inline __mmask32 first_of(int64_t count) {
  return count >= kDepth ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}

// A unit: 16 rows of b times the packed rows of a. Four sums hide the latency of a product.
[[gnu::always_inline]] inline void step(const uint16_t* a, const uint16_t* b, int64_t row) {
  const auto bytes = row * static_cast<int64_t>(sizeof(uint16_t));
  _tile_loadd(4, b, bytes);
  _tile_loadd(5, a, 64);
  _tile_dpbf16ps(0, 4, 5);
  _tile_loadd(6, b + kDepth, bytes);
  _tile_loadd(7, a + kTile, 64);
  _tile_dpbf16ps(1, 6, 7);
  _tile_loadd(4, b + 2 * kDepth, bytes);
  _tile_loadd(5, a + 2 * kTile, 64);
  _tile_dpbf16ps(2, 4, 5);
  _tile_loadd(6, b + 3 * kDepth, bytes);
  _tile_loadd(7, a + 3 * kTile, 64);
  _tile_dpbf16ps(3, 6, 7);
}

// Copies an incomplete unit, padded with zeros.
void copy(uint16_t* to, const uint16_t* b, int64_t row, int64_t rows, int64_t depth) {
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t l = 0; l < kDotDepth; l += kDepth) {
      const bool inside = i < rows && l < depth;
      const __m512i values =
          inside ? _mm512_maskz_loadu_epi16(first_of(depth - l), b + i * row + l) : _mm512_setzero_si512();
      _mm512_store_si512(to + i * kDotDepth + l, values);
    }
}

// The product of up to 16 rows of b (`rows`); its sums are tiles [4].
void multiply(float* tiles, const DotsBlock& block, const uint16_t* b, int64_t rows) {
  alignas(64) uint16_t padded_rows[kRows * kDotDepth];
  const uint16_t* a = block.a;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t l = 0; l < block.k; l += kDotDepth, a += kDotUnit) {
    const int64_t next = l + kAhead < block.k ? l + kAhead : kRows * block.b_row + l + kAhead - block.k;
    if (rows >= kRows && block.k - l >= kDotDepth) {
      for (int64_t i = 0; i < kRows; ++i)
        for (int64_t line = 0; line < kDotDepth; line += kDepth)
          _mm_prefetch(reinterpret_cast<const char*>(b + i * block.b_row + next + line), _MM_HINT_T0);
      step(a, b + l, block.b_row);
    } else {
      copy(padded_rows, b + l, block.b_row, rows, block.k - l);
      asm volatile("" ::: "memory");  // tile loads do not tell the compiler what they read
      step(a, padded_rows, kDotDepth);
    }
  }
  _tile_stored(0, tiles, 64);
  _tile_stored(1, tiles + kSums, 64);
  _tile_stored(2, tiles + 2 * kSums, 64);
  _tile_stored(3, tiles + 3 * kSums, 64);
  asm volatile("" ::: "memory");
}

// Columns [0, 16) of sums [m, kDotColumns] from four tiles with a row for each column of c.
void turn_sums(float* sums, const float* tiles, int64_t m) {
  VI values[16];
  for (int i = 0; i < 16; ++i) {
    const float* row = tiles + i * kLanes;
    values[i] = bits_of((load(row) + load(row + kSums)) + (load(row + 2 * kSums) + load(row + 3 * kSums)));
  }
  transpose(values);
  for (int i = 0; i < 16; ++i)
    if (i < m) store(sums + i * kDotColumns, float_of(values[i]));
}

template <typename C>
void write(const DotsBlock& block, const float* sums) {
  for (int64_t i = 0; i < block.m; ++i)
    write_row(static_cast<C*>(block.c) + i * block.c_row, sums + i * kDotColumns,
              static_cast<const Bf16*>(block.bias), block.n, false);
}

}  // namespace

void pack_dots(uint16_t* to, const void* a, int64_t a_row, int64_t m, int64_t k) {
  const uint16_t* from = static_cast<const uint16_t*>(a);
  for (int64_t l = 0; l < dot_units(k) * kDotDepth; l += kDepth, to += kTile) {
    VI pairs[16];
    for (int64_t i = 0; i < 16; ++i) {
      const bool inside = i < m && l < k;
      pairs[i].x =
          inside ? _mm512_maskz_loadu_epi16(first_of(k - l), from + i * a_row + l) : _mm512_setzero_si512();
    }
    transpose(pairs);
    for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * kDepth, pairs[i].x);
  }
}

void dots_block(const DotsBlock& block) {
  alignas(64) float tiles[4 * kSums], sums[kMostDotRows * kDotColumns];
  const uint16_t* b = static_cast<const uint16_t*>(block.b);
  _tile_loadconfig(&kConfig);
  for (int64_t j = 0; j < block.n; j += kRows) {
    multiply(tiles, block, b + j * block.b_row, block.n - j);
    turn_sums(sums + j, tiles, block.m);
  }
  _tile_release();
  if (block.wide)
    write<float>(block, sums);
  else
    write<Bf16>(block, sums);
}

}  // namespace athanor::kernels::amx
