// bf16 products on the tile registers. Of a panel of a and one of b the results are accumulated in four tiles. What keeps
// the tile unit busy, besides what bf16/gemm.h does:
//
// - b is loaded with a hint that keeps it from displacing a in the first-level cache.
// - The tiles of a finished pair of panels are stored between the first steps of the next, and rounded to the
//   type of c after that: a burst of stores would leave the tile unit idle.
#include "athanor/kernels/cpu/bf16/gemm.h"

namespace athanor::amx {
namespace {

constexpr int64_t kPassSteps = 16;  // of 32 k: a panel's share, 32 KiB, stays in the first-level cache
// Steps before a finished pair is read again: until its tiles have reached the first-level cache.
constexpr int64_t kStoreSteps = 3, kTurnedStoreSteps = 1;

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// In memory, never on the stack: the compiler believes that loading a configuration reads its first bytes
// only.
constexpr TileConfig kConfig;

// One step of 32 k.
[[gnu::always_inline]] inline void step(const Units& a, const uint16_t* b) {
  _tile_stream_loadd(6, b, 64);
  _tile_loadd(4, a.data, a.row_bytes);
  _tile_dpbf16ps(0, 4, 6);
  _tile_stream_loadd(7, b + kUnit / 2, 64);
  _tile_dpbf16ps(1, 4, 7);
  _tile_loadd(5, a.data + a.tile, a.row_bytes);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

[[gnu::always_inline]] inline void store_tiles(float* to) {
  _tile_stored(0, to, 64);
  _tile_stored(1, to + kTile, 64);
  _tile_stored(2, to + 2 * kTile, 64);
  _tile_stored(3, to + 3 * kTile, 64);
}

// The first step of a pass, in which the tiles of the pair before are stored, and this pair's sums begin
// (kBegin) or come back.
template <bool kBegin>
[[gnu::always_inline]] inline void first_step(const Units& a, const uint16_t* b, float* before,
                                              const float* sums) {
  _tile_stream_loadd(6, b, 64);
  _tile_loadd(4, a.data, a.row_bytes);
  _tile_stored(0, before, 64);
  if (kBegin)
    _tile_zero(0);
  else
    _tile_loadd(0, sums, 64);
  _tile_dpbf16ps(0, 4, 6);
  _tile_stream_loadd(7, b + kUnit / 2, 64);
  _tile_stored(1, before + kTile, 64);
  if (kBegin)
    _tile_zero(1);
  else
    _tile_loadd(1, sums + kTile, 64);
  _tile_dpbf16ps(1, 4, 7);
  _tile_loadd(5, a.data + a.tile, a.row_bytes);
  _tile_stored(2, before + 2 * kTile, 64);
  if (kBegin)
    _tile_zero(2);
  else
    _tile_loadd(2, sums + 2 * kTile, 64);
  _tile_dpbf16ps(2, 5, 6);
  _tile_stored(3, before + 3 * kTile, 64);
  if (kBegin)
    _tile_zero(3);
  else
    _tile_loadd(3, sums + 3 * kTile, 64);
  _tile_dpbf16ps(3, 5, 7);
}

// Whether a panel's share of a pass keeps to its place in the first-level cache unpacked: no set of it (64
// sets of lines of 64 bytes) is asked for more than two thirds of its ways. Rows whose length is a high power of
// two fail.
inline bool lies_well(const GemmBlock& block, int64_t pass_steps) {
  constexpr int64_t kSets = 64, kMost = 8;
  if (block.a_col != 1 || block.k % kSide != 0 || block.a_row % kSide != 0) return false;
  int64_t lines[kSets] = {};
  for (int64_t i = 0; i < kSide; ++i)
    for (int64_t s = 0; s < pass_steps; ++s)
      if (++lines[(i * block.a_row / kSide + s) % kSets] > kMost) return false;
  return true;
}

// Lines of c a step, for all to be written in so many steps.
int64_t num_lines(int64_t steps) {
  return (kSide + steps - 1) / steps;
}

template <Form kForm>
void multiply(const Task& task) {
  constexpr bool kTurned = kForm == Form::turned;
  const int64_t steps = task.steps;
  const int64_t pass_steps = task.pass_steps;
  float* before = task.final;  // where the tiles in the registers go
  int64_t row = 0, column = 0;
  constexpr int64_t kFirstLines = kTurned ? kTurnedStoreSteps : kStoreSteps;
  bool done = false;  // they are final sums, of c from (row, column)
  Writer<kTurned> writer(task);
  for (int64_t i = 0; i < task.a_panels; ++i) {
    Ahead ahead(task.a, (i + 1) * kSide, kSide);
    const int64_t rate = (ahead.left() + task.b_panels * steps - 1) / (task.b_panels * steps);
    for (int64_t first = 0; first < steps; first += pass_steps) {
      const int64_t count = smaller(pass_steps, steps - first);
      const int64_t lines = count > kFirstLines ? num_lines(count - kFirstLines) : 0;
      const Units a = units_of_a<kForm>(task, i, first, count);
      asm volatile("" ::: "memory");  // tile loads do not tell the compiler what they read
      for (int64_t j = 0; j < task.b_panels; ++j) {
        const uint16_t* b = task.b_packed + (j * steps + first) * kUnit;
        float* sums = task.sums + j * kPair;
        if (first == 0)
          first_step<true>(a, b, before, sums);
        else
          first_step<false>(a, b, before, sums);
        if (done) writer.begin(before, row, column);
        if (first + count == steps) writer.expect(i * kSide, j * kSide);
        ahead.fetch(rate);
        for (int64_t s = 1; s < count; ++s) {
          if (s >= kFirstLines) writer.lines(lines);
          step(a.at(s), b + s * kUnit);
          ahead.fetch(rate);
        }
        writer.finish();
        // Final tiles go where first-level cache is sure to be: they are read again at once.
        before = first + count == steps ? task.final : sums;
        row = i * kSide;
        column = j * kSide;
        done = first + count == steps;
      }
    }
  }
  store_tiles(before);
  writer.begin(before, row, column);
  writer.finish();
}

}  // namespace

void pack_b(const GemmBlock& block, std::byte* packed) {
  auto* const to = reinterpret_cast<uint16_t*>(packed);
  if (is_transposed(block))
    pack_panels<Form::transposed>(b_of(block), to);
  else
    pack_panels<Form::paired>(b_of(block), to);
}

void gemm_block(const GemmBlock& block) {
  _tile_loadconfig(&kConfig);
  if (block.a_col != 1) {
    multiply<Form::turned>(task_of<Form::turned>(block, kPassSteps));
  } else {
    Task task = task_of<Form::copied>(block, kPassSteps);
    task.in_place = lies_well(block, task.pass_steps);
    multiply<Form::copied>(task);
  }
  _tile_release();
}

}  // namespace athanor::amx
