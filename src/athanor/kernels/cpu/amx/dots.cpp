#include "athanor/kernels/cpu/dots_block.h"

#include "athanor/kernels/cpu/f32/write_row.h"
#include "athanor/kernels/cpu/simd/pack.h"

namespace athanor::amx {
namespace {

constexpr int64_t kDepth = 32, kAhead = 8 * kDepth;
constexpr int64_t kSums = 256;  // f32 of a tile register

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kConfig;  // in memory: the compiler believes that only its first bytes are read

inline __mmask32 first_of(int64_t count) {
  return count >= kDepth ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}

// 32 of k: four tiles of 16 rows of b times the packed rows of a.
[[gnu::always_inline]] inline void step(const uint16_t* a, const uint16_t* b, int64_t row) {
  const auto bytes = row * static_cast<int64_t>(sizeof(uint16_t));
  _tile_loadd(7, a, 64);
  _tile_loadd(4, b, bytes);
  _tile_dpbf16ps(0, 4, 7);
  _tile_loadd(5, b + 16 * row, bytes);
  _tile_dpbf16ps(1, 5, 7);
  _tile_loadd(6, b + 32 * row, bytes);
  _tile_dpbf16ps(2, 6, 7);
  _tile_loadd(4, b + 48 * row, bytes);
  _tile_dpbf16ps(3, 4, 7);
}

// What is no whole number of tiles is copied, padded with zeros.
void copy(uint16_t* to, const uint16_t* b, int64_t row, int64_t rows, int64_t depth) {
  for (int64_t i = 0; i < kDotColumns; ++i)
    _mm512_store_si512(to + i * kDepth, _mm512_maskz_loadu_epi16(i < rows ? first_of(depth) : 0,
                                                                 b + (i < rows ? i : 0) * row));
}

// sums [m, kDotColumns] from tiles with a row for each column of c.
void turn_sums(float* sums, const float* tiles, int64_t m) {
  for (int64_t tile = 0; tile < kDotColumns / kLanes; ++tile) {
    VI values[16];
    for (int i = 0; i < 16; ++i) values[i] = bits_of(load(tiles + tile * kSums + i * kLanes));
    transpose(values);
    for (int i = 0; i < 16; ++i)
      if (i < m) store(sums + i * kDotColumns + tile * kLanes, float_of(values[i]));
  }
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
  for (int64_t l = 0; l < k; l += kDepth, to += kDotUnit) {
    VI pairs[16];
    for (int64_t i = 0; i < 16; ++i)
      pairs[i].x =
          i < m ? _mm512_maskz_loadu_epi16(first_of(k - l), from + i * a_row + l) : _mm512_setzero_si512();
    transpose(pairs);
    for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * 32, pairs[i].x);
  }
}

void dots_block(const DotsBlock& block) {
  alignas(64) uint16_t padded_rows[kDotColumns * kDepth];
  alignas(64) float tiles[4 * kSums], sums[kMostDotRows * kDotColumns];
  const uint16_t* b = static_cast<const uint16_t*>(block.b);
  const uint16_t* a = block.a;
  _tile_loadconfig(&kConfig);
  for (int64_t l = 0; l < block.k; l += kDepth, a += kDotUnit) {
    if (block.n == kDotColumns && block.k - l >= kDepth) {
      if (block.k - l > kAhead)
        for (int64_t i = 0; i < kDotColumns; ++i)
          _mm_prefetch(reinterpret_cast<const char*>(b + i * block.b_row + l + kAhead), _MM_HINT_T1);
      step(a, b + l, block.b_row);
    } else {
      copy(padded_rows, b + l, block.b_row, block.n, block.k - l);
      asm volatile("" ::: "memory");  // tile loads do not tell the compiler what they read
      step(a, padded_rows, kDepth);
    }
  }
  _tile_stored(0, tiles, 64);
  _tile_stored(1, tiles + kSums, 64);
  _tile_stored(2, tiles + 2 * kSums, 64);
  _tile_stored(3, tiles + 3 * kSums, 64);
  asm volatile("" ::: "memory");
  _tile_release();
  turn_sums(sums, tiles, block.m);
  if (block.wide)
    write<float>(block, sums);
  else
    write<Bf16>(block, sums);
}

}  // namespace athanor::amx
