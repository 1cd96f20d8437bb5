// f32 products as six products of bf16 parts on the tile registers; cpu/split_block.h explains the method.
//
// - A unit is what one step consumes of one operand: 32 of its lines (rows of a, columns of b) by 32 of k, as two
//   tiles for each of three parts. Pairs of bf16 are k = p and k = p + 16, in both operands: merging two vectors then
//   takes no permutation, and nothing relies on the order of a sum.
// - In one step 14 tile loads feed 24 tile products. A panel of a stays in the first-level cache; b streams through it.
// - The tiles of a finished pair of panels are stored between the first products of the next.
#include "athanor/kernels/cpu/amx/tile_config.h"
#include "athanor/kernels/cpu/simd/pack.h"
#include "athanor/kernels/cpu/split_block.h"

namespace athanor::kernels::amx {
namespace {

constexpr int64_t kTile = 512;        // bf16 of a tile register
constexpr int64_t kPart = 2 * kTile;  // a part of a unit
constexpr int64_t kSums = 256;        // f32 of a tile register

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
inline Mask first_of(int64_t count) {
  return first_lanes(static_cast<int>(count < 0 ? 0 : smaller(count, kLanes)));
}

// An operand: line i, k = l at data[i * line + l * depth]; one of the strides is 1.
struct Operand {
  const float* data;
  int64_t line, depth;
  int64_t lines, k;
};

// The first part is rounded to bf16, so that the remainder has either sign; the other parts are truncated, which is
// exact.
struct Parts {
  VI first, second, third;  // bf16 in the upper halves; the lower half of `third` is to be ignored
};
[[gnu::always_inline]] inline Parts split(V x) {
  const VI mask = set1i(0xffff0000u);
  Parts parts;
  parts.first = (bits_of(x) + set1i(0x8000u)) & mask;
  const V rest = x - float_of(parts.first);
  parts.second = bits_of(rest) & mask;
  parts.third = bits_of(rest - float_of(parts.second));
  return parts;
}
[[gnu::always_inline]] inline VI merge(VI low, VI high) {
  return shift_right<16>(low) | (high & set1i(0xffff0000u));
}

// Sixteen vectors of an operand from (line, k) on: along k, one for each line, or along its lines, one for each k.
template <bool kAlongK>
[[gnu::always_inline]] inline void read(V (&v)[16], const Operand& x, int64_t line, int64_t k) {
  const int64_t count = (kAlongK ? x.lines - line : x.k - k), width = kAlongK ? x.k - k : x.lines - line;
  const int64_t stride = kAlongK ? x.line : x.depth;
  const float* from = x.data + line * x.line + k * x.depth;
  if (count >= 16 && width >= kLanes) {
    for (int64_t i = 0; i < 16; ++i) v[i] = load(from + i * stride);
    return;
  }
  const Mask mask = first_of(width);
  for (int64_t i = 0; i < 16; ++i) v[i] = i < count ? load(from + i * stride, mask) : zero();
}

[[gnu::always_inline]] inline void turn(V (&v)[16]) {
  VI bits[16];
  for (int i = 0; i < 16; ++i) bits[i] = bits_of(v[i]);
  transpose(bits);
  for (int i = 0; i < 16; ++i) v[i] = float_of(bits[i]);
}

[[gnu::always_inline]] inline void put(uint16_t* to, V low, V high) {
  const Parts lower = split(low), upper = split(high);
  uint32_t* row = reinterpret_cast<uint32_t*>(to);
  store(row, merge(lower.first, upper.first));
  store(row + kPart / 2, merge(lower.second, upper.second));
  store(row + kPart, merge(lower.third, upper.third));
}

// One unit. Tiles of a have a row for each line, tiles of b a row for each pair of k. An operand with the other memory
// order is transposed before it is split.
template <bool kAlongK, bool kTurn>
void pack_unit(uint16_t* to, const Operand& x, int64_t line, int64_t k) {
  for (int tile = 0; tile < 2; ++tile, to += kTile, line += 16) {
    V low[16], high[16];
    if (!kTurn) {
      const int64_t count = kAlongK ? x.lines - line : x.k - k, width = kAlongK ? x.k - k : x.lines - line;
      const int64_t stride = kAlongK ? x.line : x.depth;
      const float* from = x.data + line * x.line + k * x.depth;
      const int64_t second = 16 * x.depth;
      const int64_t need = kAlongK ? 16 : 32;
      if (count >= need && width >= (kAlongK ? 32 : 16)) {
        for (int r = 0; r < 16; ++r)
          put(to + r * 32, load(from + r * stride), load(from + r * stride + second));
        continue;
      }
    }
    read<kAlongK>(low, x, line, k);
    if (kTurn) turn(low);
    read<kAlongK>(high, x, line, k + 16);
    if (kTurn) turn(high);
    for (int r = 0; r < 16; ++r) put(to + r * 32, low[r], high[r]);
  }
}

// Products of one part of a in tiles 4 and 5 with one part of b in tiles 6 and 7.
[[gnu::always_inline]] inline void multiply() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}
[[gnu::always_inline]] inline void load_a(const uint16_t* unit, int part) {
  _tile_loadd(4, unit + part * kPart, 64);
  _tile_loadd(5, unit + part * kPart + kTile, 64);
}
[[gnu::always_inline]] inline void load_b(const uint16_t* unit, int part) {
  _tile_stream_loadd(6, unit + part * kPart, 64);
  _tile_stream_loadd(7, unit + part * kPart + kTile, 64);
}

// One step of 32 k. The first of a pair of panels stores the tiles of the pair before, one by one.
template <bool kFirst>
[[gnu::always_inline]] inline void step(const uint16_t* a, const uint16_t* b, float* before) {
  load_a(a, 2);
  load_b(b, 0);
  if (kFirst) {
    _tile_stored(0, before, 64);
    _tile_zero(0);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stored(1, before + kSums, 64);
    _tile_zero(1);
    _tile_dpbf16ps(1, 4, 7);
    _tile_stored(2, before + 2 * kSums, 64);
    _tile_zero(2);
    _tile_dpbf16ps(2, 5, 6);
    _tile_stored(3, before + 3 * kSums, 64);
    _tile_zero(3);
    _tile_dpbf16ps(3, 5, 7);
  } else {
    multiply();
  }
  load_a(a, 1);
  multiply();
  load_a(a, 0);
  multiply();
  load_b(b, 2);
  multiply();
  load_b(b, 1);
  multiply();
  load_a(a, 1);
  multiply();
}

// Where the tiles of a finished pair of panels are stored.
struct Target {
  float* c = nullptr;
  int64_t c_row = 0, rows = 0, columns = 0;
  const float* bias = nullptr;
  bool add = false;
};

void write(const Target& to, const float* sums) {
  const Mask left = first_of(to.columns), right = first_of(to.columns - kLanes);
  V left_bias = zero(), right_bias = zero();
  if (to.bias != nullptr) {
    left_bias = load(to.bias, left);
    right_bias = load(to.bias + kLanes, right);
  }
  for (int64_t i = 0; i < to.rows; ++i) {
    float* c = to.c + i * to.c_row;
    const float* from = sums + i / 16 * 2 * kSums + i % 16 * 16;
    V low = load(from) + left_bias, high = load(from + kSums) + right_bias;
    if (to.add) {
      low = low + load(c, left);
      high = high + load(c + kLanes, right);
    }
    store(c, low, left);
    store(c + kLanes, high, right);
  }
}

// One range of k, for all of the block's c.
template <bool kAlongA, bool kAlongB>
void piece(const SplitBlock& block, const Operand& a, const Operand& b, bool first_piece) {
  const int64_t steps = (a.k + kSplitSide - 1) / kSplitSide;
  const int64_t a_panels = (a.lines + kSplitSide - 1) / kSplitSide;
  const int64_t b_panels = (b.lines + kSplitSide - 1) / kSplitSide;
  float* sums = reinterpret_cast<float*>(block.scratch);
  uint16_t* a_packed = reinterpret_cast<uint16_t*>(sums + 4 * kSums);  // one panel
  uint16_t* b_packed = a_packed + steps * kSplitUnit;
  for (int64_t j = 0; j < b_panels; ++j)
    for (int64_t s = 0; s < steps; ++s)
      pack_unit<kAlongB, kAlongB>(b_packed + (j * steps + s) * kSplitUnit, b, j * kSplitSide, s * kSplitSide);
  const auto pack_a = [&](int64_t i, int64_t s) {
    pack_unit<kAlongA, !kAlongA>(a_packed + s * kSplitUnit, a, i * kSplitSide, s * kSplitSide);
  };

  Target done;
  for (int64_t i = 0; i < a_panels; ++i) {
    for (int64_t s = 0; s < steps; ++s) pack_a(i, s);
    for (int64_t j = 0; j < b_panels; ++j) {
      const uint16_t* b_panel = b_packed + j * steps * kSplitUnit;
      asm volatile("" ::: "memory");  // tile loads do not tell the compiler what they read
      step<true>(a_packed, b_panel, sums);
      write(done, sums);
      for (int64_t s = 1; s < steps; ++s) {
        step<false>(a_packed + s * kSplitUnit, b_panel + s * kSplitUnit, nullptr);
      }
      done.c = block.c + i * kSplitSide * block.c_row + j * kSplitSide;
      done.c_row = block.c_row;
      done.rows = smaller(kSplitSide, a.lines - i * kSplitSide);
      done.columns = b.lines - j * kSplitSide;
      done.bias = first_piece && block.bias != nullptr ? block.bias + j * kSplitSide : nullptr;
      done.add = block.accumulate || !first_piece;
    }
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + kSums, 64);
  _tile_stored(2, sums + 2 * kSums, 64);
  _tile_stored(3, sums + 3 * kSums, 64);
  asm volatile("" ::: "memory");
  write(done, sums);
}

}  // namespace

void split_block(const SplitBlock& block) {
  _tile_loadconfig(&kConfig);
  for (int64_t l = 0; l < block.k; l += block.depth) {
    const int64_t k = smaller(block.depth, block.k - l);
    const Operand a = {block.a + l * block.a_col, block.a_row, block.a_col, block.m, k};
    const Operand b = {block.b + l * block.b_row, block.b_col, block.b_row, block.n, k};
    if (block.a_col != 1)
      piece<false, false>(block, a, b, l == 0);
    else if (block.b_row == 1)
      piece<true, true>(block, a, b, l == 0);
    else
      piece<true, false>(block, a, b, l == 0);
  }
  _tile_release();
}

}  // namespace athanor::kernels::amx
