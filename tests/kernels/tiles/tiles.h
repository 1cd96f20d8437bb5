// The tile registers in software, for tests on processors without them: included before the kernels' sources (cpu/amx),
// whose instructions it takes the place of (Intel's Intrinsics Guide, AMX-TILE and AMX-BF16). Tiles are 16 rows of 64 bytes,
// as all our kernels configure them; each thread has its own, as in hardware. What it does not show: how the unit rounds a
// pair of products before it adds them, numbers below 2^-126 (taken as zero there), and speed.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace athanor::kernels::emulated {

inline constexpr int kRows = 16, kRowBytes = 64, kPairs = 16;

struct alignas(64) Tile {
  unsigned char rows[kRows][kRowBytes];
};
inline thread_local Tile tiles[8];

inline void load(int tile, const void* from, int64_t stride) {
  for (int i = 0; i < kRows; ++i)
    std::memcpy(tiles[tile].rows[i], static_cast<const char*>(from) + i * stride, kRowBytes);
}
inline void store(int tile, void* to, int64_t stride) {
  for (int i = 0; i < kRows; ++i)
    std::memcpy(static_cast<char*>(to) + i * stride, tiles[tile].rows[i], kRowBytes);
}
inline void clear(int tile) {
  std::memset(&tiles[tile], 0, sizeof(Tile));
}

// c [16][16] f32 += a [16][16 pairs] . b [16 pairs][16], pairs of bf16.
inline void add_products(int c, int a, int b) {
  for (int i = 0; i < kRows; ++i) {
    float sums[kPairs];
    std::memcpy(sums, tiles[c].rows[i], sizeof sums);
    for (int p = 0; p < kPairs; ++p) {
      uint32_t pair, column[kPairs];
      std::memcpy(&pair, tiles[a].rows[i] + 4 * p, sizeof pair);
      std::memcpy(column, tiles[b].rows[p], sizeof column);
      float low, high;
      const uint32_t low_bits = pair << 16, high_bits = pair & 0xffff0000;
      std::memcpy(&low, &low_bits, sizeof low);
      std::memcpy(&high, &high_bits, sizeof high);
      for (int j = 0; j < kPairs; ++j) {
        float b_low, b_high;
        const uint32_t b_low_bits = column[j] << 16, b_high_bits = column[j] & 0xffff0000;
        std::memcpy(&b_low, &b_low_bits, sizeof b_low);
        std::memcpy(&b_high, &b_high_bits, sizeof b_high);
        sums[j] += low * b_low;
        sums[j] += high * b_high;
      }
    }
    std::memcpy(tiles[c].rows[i], sums, sizeof sums);
  }
}

}  // namespace athanor::kernels::emulated

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) static_cast<void>(config)
#define _tile_release() static_cast<void>(0)
#define _tile_zero(tile) athanor::kernels::emulated::clear(tile)
#define _tile_loadd(tile, from, stride) athanor::kernels::emulated::load(tile, from, stride)
#define _tile_stream_loadd(tile, from, stride) athanor::kernels::emulated::load(tile, from, stride)
#define _tile_stored(tile, to, stride) athanor::kernels::emulated::store(tile, to, stride)
#define _tile_dpbf16ps(c, a, b) athanor::kernels::emulated::add_products(c, a, b)
