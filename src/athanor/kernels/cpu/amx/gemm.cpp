// bf16 products on the tile registers. A block of c is made of panels: 32 rows of a times 32 columns of b,
// accumulated in four tiles over the whole of k. What keeps the tile unit busy:
//
// - Second-level cache: the panels of b that a block spans are packed once and stay there.
// - First-level cache: k is walked in passes; in a pass one panel stays in the cache while those of the other
//   operand stream by (`sweep`). Between passes the sums wait in memory, exactly.
// - Packing hides behind products: between two steps of a sweep the panel that is needed next is packed, a
//   unit at a time (`Background`). Its cache misses, too, pass while the tile unit works.
// - The tiles of a finished panel pair are stored between the first steps of the next, and rounded to the
//   type of c after that: a burst of stores would leave the tile unit idle.
//
// Every element is one f32 sum over ascending pairs of k, whatever the cut into blocks, panels and passes.
#include "athanor/kernels/cpu/amx/pack.h"
#include "athanor/kernels/cpu/gemm_block.h"

namespace athanor::amx {
namespace {

constexpr int64_t kPassSteps = 12;    // of 32: a panel's share of a pass is 24 KiB
constexpr int64_t kTile = 256;        // f32 of one tile register
constexpr int64_t kPair = 4 * kTile;  // of the four that make 32 x 32
constexpr int64_t kFirstPanels = 4;   // of a, under which b is packed
constexpr int64_t kFirstElements = kFirstPanels * kSide * 1536;

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

struct Task {
  const GemmBlock& block;
  int64_t steps;      // of 32 k
  float* sums;        // of the panels that pass by, between passes
  float* spare;       // tiles stored before there is anything to store
  const float* bias;  // [n, padded to panels]
};

// Packing to be done while something else runs: units next ... end of one panel, one every `every` steps.
template <Form kForm>
struct Background {
  const Operand& x;
  uint16_t* to;
  int64_t line, next, end, every;
  int64_t wait = 0;

  [[gnu::always_inline]] void unit() {
    pack_unit<kForm>(to + next * kUnit, x, line, next * kSide);
    ++next;
  }
  [[gnu::always_inline]] void step() {
    if (next < end && ++wait >= every) {
      wait = 0;
      unit();
    }
  }
  void finish() {
    while (next < end) unit();
  }
};

// A pair of panels whose tiles lie in memory: rows and columns of c from (row, column).
void write_c(const Task& task, const float* tiles, int64_t row, int64_t column) {
  const GemmBlock& block = task.block;
  const int64_t rows = smaller(kSide, block.m - row);
  const __mmask32 mask = first32(block.n - column);
  const __mmask16 left = static_cast<__mmask16>(mask), right = static_cast<__mmask16>(mask >> 16);
  if (block.out == kBf16) {
    const __m512 shift_left = _mm512_load_ps(task.bias + column),
                 shift_right = _mm512_load_ps(task.bias + column + 16);
    uint16_t* c = static_cast<uint16_t*>(block.c) + row * block.c_row + column;
    for (int64_t i = 0; i < rows; ++i, c += block.c_row) {
      const float* from = tiles + i / 16 * 2 * kTile + i % 16 * 16;
      const __m512 low = _mm512_load_ps(from) + shift_left, high = _mm512_load_ps(from + kTile) + shift_right;
      _mm512_mask_storeu_epi16(c, mask, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
    }
    return;
  }
  float* c = static_cast<float*>(block.c) + row * block.c_row + column;
  for (int64_t i = 0; i < rows; ++i, c += block.c_row) {
    const float* from = tiles + i / 16 * 2 * kTile + i % 16 * 16;
    __m512 low = _mm512_load_ps(from), high = _mm512_load_ps(from + kTile);
    if (block.accumulate) {
      low += _mm512_maskz_loadu_ps(left, c);
      high += _mm512_maskz_loadu_ps(right, c + 16);
    } else {
      low += _mm512_load_ps(task.bias + column);
      high += _mm512_load_ps(task.bias + column + 16);
    }
    _mm512_mask_storeu_ps(c, left, low);
    _mm512_mask_storeu_ps(c + 16, right, high);
  }
}

// One step of 32 k. The panel that passes by is loaded with a hint that keeps it from displacing the other.
template <bool kAStays>
[[gnu::always_inline]] inline void step(const uint16_t* a, const uint16_t* b) {
  constexpr int64_t kHalf = kUnit / 2;
  if constexpr (kAStays) {
    _tile_stream_loadd(6, b, 64);
    _tile_loadd(4, a, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stream_loadd(7, b + kHalf, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kHalf, 64);
  } else {
    _tile_loadd(6, b, 64);
    _tile_stream_loadd(4, a, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + kHalf, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_stream_loadd(5, a + kHalf, 64);
  }
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

// The first step, in which the tiles of the pair before are stored and this pair's sums begin or come back.
[[gnu::always_inline]] inline void first_step(const uint16_t* a, const uint16_t* b, float* before,
                                              const float* sums) {
  constexpr int64_t kHalf = kUnit / 2;
  _tile_loadd(6, b, 64);
  _tile_loadd(4, a, 64);
  _tile_stored(0, before, 64);
  if (sums == nullptr)
    _tile_zero(0);
  else
    _tile_loadd(0, sums, 64);
  _tile_dpbf16ps(0, 4, 6);
  _tile_loadd(7, b + kHalf, 64);
  _tile_stored(1, before + kTile, 64);
  if (sums == nullptr)
    _tile_zero(1);
  else
    _tile_loadd(1, sums + kTile, 64);
  _tile_dpbf16ps(1, 4, 7);
  _tile_loadd(5, a + kHalf, 64);
  _tile_stored(2, before + 2 * kTile, 64);
  if (sums == nullptr)
    _tile_zero(2);
  else
    _tile_loadd(2, sums + 2 * kTile, 64);
  _tile_dpbf16ps(2, 5, 6);
  _tile_stored(3, before + 3 * kTile, 64);
  if (sums == nullptr)
    _tile_zero(3);
  else
    _tile_loadd(3, sums + 3 * kTile, 64);
  _tile_dpbf16ps(3, 5, 7);
}

// The products of the panel `still` with `count` panels that lie `stride` apart, written to c from (row,
// column).
template <bool kAStays, Form kForm>
void sweep(const Task& task, const uint16_t* still, const uint16_t* moving, int64_t stride, int64_t count,
           int64_t row, int64_t column, Background<kForm> background) {
  // A single panel's sums would be loaded right after they are stored.
  const int64_t passes = count == 1 ? 1 : (task.steps + kPassSteps - 1) / kPassSteps;
  const int64_t pass_steps = (task.steps + passes - 1) / passes;
  float* before = task.spare;
  int64_t done = -1;  // the pair whose tiles `before` are, if they are final
  for (int64_t first = 0; first < task.steps; first += pass_steps) {
    const int64_t steps = smaller(pass_steps, task.steps - first);
    for (int64_t i = 0; i < count; ++i) {
      const uint16_t* a = (kAStays ? still : moving + i * stride) + first * kUnit;
      const uint16_t* b = (kAStays ? moving + i * stride : still) + first * kUnit;
      float* sums = task.sums + i * kPair;
      first_step(a, b, before, first == 0 ? nullptr : sums);
      background.step();
      if (done >= 0)
        write_c(task, before, row + (kAStays ? 0 : done * kSide), column + (kAStays ? done * kSide : 0));
      for (int64_t s = 1; s < steps; ++s) {
        step<kAStays>(a + s * kUnit, b + s * kUnit);
        background.step();
      }
      before = sums;
      done = first + steps == task.steps ? i : -1;
    }
  }
  _tile_stored(0, before, 64);
  _tile_stored(1, before + kTile, 64);
  _tile_stored(2, before + 2 * kTile, 64);
  _tile_stored(3, before + 3 * kTile, 64);
  background.finish();
  write_c(task, before, row + (kAStays ? 0 : done * kSide), column + (kAStays ? done * kSide : 0));
}

template <Form kForm>
void pack_panel(uint16_t* to, const Operand& x, int64_t line, int64_t steps) {
  Background<kForm>{x, to, line, 0, steps, 1}.finish();
}

template <Form kFormA, Form kFormB>
void run(const GemmBlock& block) {
  const Operand a{static_cast<const uint16_t*>(block.a), block.a_row, block.a_col, block.m, block.k};
  const Operand b{static_cast<const uint16_t*>(block.b), block.b_col, block.b_row, block.n, block.k};
  const int64_t steps = (block.k + kSide - 1) / kSide, panel = steps * kUnit;
  const int64_t a_panels = (block.m + kSide - 1) / kSide, b_panels = (block.n + kSide - 1) / kSide;
  // A ring of panels of a: at first those under which b is packed, later the present one and the next.
  int64_t ring = kFirstElements / (kSide * kSide * steps);
  ring = ring < 2 ? 2 : smaller(ring, kFirstPanels);
  const int64_t first_panels = smaller(ring, a_panels);

  uint16_t* b_packed = reinterpret_cast<uint16_t*>(block.scratch);
  uint16_t* a_packed = b_packed + b_panels * panel;
  float* sums = reinterpret_cast<float*>(a_packed + ring * panel);
  float* spare = sums + (b_panels < ring ? ring : b_panels) * kPair;
  float* bias = spare + kPair;
  for (int64_t j = 0; j < b_panels * kSide; j += 16) {
    __m512 shift = _mm512_setzero_ps();
    if (block.bias != nullptr) {
      const __mmask16 mask = static_cast<__mmask16>(first32(smaller(block.n - j, 16)));
      const __m256i bits = _mm256_maskz_loadu_epi16(mask, static_cast<const uint16_t*>(block.bias) + j);
      shift = reinterpret_cast<__m512>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    }
    _mm512_store_ps(bias + j, shift);
  }
  const Task task{block, steps, sums, spare, bias};

  for (int64_t i = 0; i < first_panels; ++i) pack_panel<kFormA>(a_packed + i * panel, a, i * kSide, steps);
  pack_panel<kFormB>(b_packed, b, 0, steps);
  for (int64_t j = 0; j < b_panels; ++j) {
    const uint16_t* still = b_packed + j * panel;
    if (j + 1 < b_panels) {
      const Background<kFormB> next{b, b_packed + (j + 1) * panel, (j + 1) * kSide, 0, steps, first_panels};
      sweep<false>(task, still, a_packed, panel, first_panels, 0, j * kSide, next);
    } else {
      const Background<kFormA> next{a, a_packed, first_panels * kSide, 0, 0, 1};
      sweep<false>(task, still, a_packed, panel, first_panels, 0, j * kSide, next);
    }
  }
  if (first_panels < a_panels) pack_panel<kFormA>(a_packed, a, first_panels * kSide, steps);
  for (int64_t i = first_panels; i < a_panels; ++i) {
    const int64_t slot = (i - first_panels) % 2;
    const Background<kFormA> next{a, a_packed + (1 - slot) * panel, (i + 1) * kSide,
                                  0, i + 1 < a_panels ? steps : 0,  b_panels};
    sweep<true>(task, a_packed + slot * panel, b_packed, panel, b_panels, i * kSide, 0, next);
  }
}

}  // namespace

void gemm_block(const GemmBlock& block) {
  const TileConfig config;
  _tile_loadconfig(&config);
  if (block.a_col == 1 && block.b_row == 1)
    run<Form::copied, Form::transposed>(block);
  else if (block.a_col == 1)
    run<Form::copied, Form::paired>(block);
  else if (block.b_row == 1)
    run<Form::paired_transposed, Form::transposed>(block);
  else
    run<Form::paired_transposed, Form::paired>(block);
  _tile_release();
}

}  // namespace athanor::amx
