// What the bf16 block kernels (gemm_block.h) share: how operands are packed and how results reach c. The multiplying
// loops are in amx/gemm.cpp and avx512_bf16/gemm.cpp. A panel is 32 rows of a or 32 columns of b; a pair of panels
// makes 32 x 32 results of c.
//
// - Second-level cache: the panels of b that a block spans are packed once and stay there. The rows of a stream through
//   it, prefetched ahead of their use.
// - First-level cache: amx takes k in passes, so that one panel of a stays there. Between passes the sums lie in memory
//   as exact f32. avx512_bf16 takes all of k at once.
//
// Every element is one f32 sum over ascending pairs of k, whatever the blocks, panels and passes.
#pragma once

#include "athanor/kernels/cpu/bf16/ahead.h"
#include "athanor/kernels/cpu/gemm_block.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

inline constexpr int64_t kTile = 256;  // f32 of a quarter of a pair of panels
inline constexpr int64_t kPair = 4 * kTile;
// Panels of a transposed a that are packed together: memory is read at full speed in runs of 256 bytes or more.
inline constexpr int64_t kGroup = kGroupRows / kSide;

struct Task {
  const GemmBlock& block;
  Operand a;
  int64_t steps, pass_steps;  // steps of 32 k: in all, and in a pass
  int64_t a_panels, b_panels;
  bool in_place;             // a needs no packing (where tiles are loaded, of rows any length apart)
  const uint16_t* b_packed;  // [b_panels][steps] units
  int64_t a_kept;            // panels of an a with contiguous k that are packed at a time
  uint16_t* a_packed;        // [a_kept][pass_steps] units, or [kGroup][steps] of a transposed a
  float* sums;               // [b_panels] pairs, between passes
  float* final;              // two pairs
  float* bias;               // [b_panels * 32]
};

inline void read_bias(const Task& task) {
  const GemmBlock& block = task.block;
  for (int64_t j = 0; j < task.b_panels * kSide; j += 16) {
    __m512i bits = _mm512_setzero_si512();
    if (block.bias != nullptr) {
      const __mmask16 mask = static_cast<__mmask16>(first32(smaller(block.n - j, 16)));
      bits =
          _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, static_cast<const uint16_t*>(block.bias) + j));
    }
    _mm512_store_ps(task.bias + j, reinterpret_cast<__m512>(_mm512_slli_epi32(bits, 16)));
  }
}

inline int64_t num_units(int64_t length) {
  return (length + kSide - 1) / kSide;
}

template <Form kForm>
inline void pack_panels(const Operand& b, uint16_t* packed) {
  const int64_t steps = num_units(b.k), panels = num_units(b.lines);
  const auto unit = [&](int64_t panel, int64_t s) __attribute__((always_inline)) {
    pack_unit<kForm>(packed + (panel * steps + s) * kUnit, b, panel * kSide, s * kSide);
  };
  if (kForm == Form::transposed) {
    for (int64_t j = 0; j < panels; ++j) {
      Ahead ahead(b, (j + 1) * kSide, kSide);
      for (int64_t s = 0; s < steps; ++s) {
        unit(j, s);
        ahead.fetch(kSide);
      }
    }
  } else {
    for (int64_t s = 0; s < steps; ++s)
      for (int64_t j = 0; j < panels; ++j) unit(j, s);
  }
}

inline __m512i rounded(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}
inline __m512 widened(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

// c [32] bf16 as it stands in memory, plus the residual.
inline __m512i with_residual(__m512i c, __m512i residual) {
  const __m512 low = widened(_mm512_castsi512_si256(residual)) + widened(_mm512_castsi512_si256(c));
  const __m512 high =
      widened(_mm512_extracti64x4_epi64(residual, 1)) + widened(_mm512_extracti64x4_epi64(c, 1));
  return rounded(low, high);
}
// The f32 sums that the product is added to, rows c_row apart; may be null.
inline const float* sums_of(const GemmBlock& block) {
  return block.accumulate ? static_cast<const float*>(block.c) : block.sums;
}

// Writes the results of a pair of panels into c, line by line, from (row, column) on.
template <bool kTurned>
class Writer {
 public:
  explicit Writer(const Task& task) : task_(task), sums_(sums_of(task.block)) {}

  // Prefetches what the results of pair (row, column) will be added to.
  [[gnu::always_inline]] void expect(int64_t row, int64_t column) const {
    const GemmBlock& block = task_.block;
    const int64_t rows = smaller(kSide, block.m - row), at = row * block.c_row + column;
    for (int64_t i = 0; sums_ != nullptr && i < rows; ++i) {
      _mm_prefetch(sums_ + at + i * block.c_row, _MM_HINT_T1);
      _mm_prefetch(sums_ + at + i * block.c_row + 16, _MM_HINT_T1);
    }
    for (int64_t i = 0; block.residual != nullptr && i < rows; ++i)
      _mm_prefetch(static_cast<const uint16_t*>(block.residual) + at + i * block.c_row, _MM_HINT_T0);
  }

  // From now on write() is about the pair at (row, column).
  void at(int64_t row, int64_t column) {
    row_ = row;
    column_ = column;
    rows_ = smaller(kSide, task_.block.m - row);
    mask_ = first32(task_.block.n - column);
  }

  // Writes line i of the pair, given its sums.
  [[gnu::always_inline]] void write(int64_t i, __m512 low, __m512 high) const {
    const GemmBlock& block = task_.block;
    const int64_t line = kTurned ? turned_row(i) : i;
    if (line >= rows_) return;
    const __mmask16 left = static_cast<__mmask16>(mask_), right = static_cast<__mmask16>(mask_ >> 16);
    const int64_t at = (row_ + line) * block.c_row + column_;
    low += _mm512_load_ps(task_.bias + column_);
    high += _mm512_load_ps(task_.bias + column_ + 16);
    if (sums_ != nullptr) {
      low += _mm512_maskz_loadu_ps(left, sums_ + at);
      high += _mm512_maskz_loadu_ps(right, sums_ + at + 16);
    }
    if (block.out == kBf16) {
      __m512i c = rounded(low, high);
      if (block.residual != nullptr)
        c = with_residual(c,
                          _mm512_maskz_loadu_epi16(mask_, static_cast<const uint16_t*>(block.residual) + at));
      _mm512_mask_storeu_epi16(static_cast<uint16_t*>(block.c) + at, mask_, c);
      return;
    }
    float* c = static_cast<float*>(block.c) + at;
    // A fresh gradient is larger than what caches keep until it is read.
    if (kTurned && sums_ == nullptr && mask_ == ~__mmask32{0} && reinterpret_cast<uintptr_t>(c) % 64 == 0) {
      _mm512_stream_ps(c, low);
      _mm512_stream_ps(c + 16, high);
      return;
    }
    _mm512_mask_storeu_ps(c, left, low);
    _mm512_mask_storeu_ps(c + 16, right, high);
  }

 private:
  const Task& task_;
  const float* const sums_;
  int64_t row_ = 0, column_ = 0, rows_ = 0;
  __mmask32 mask_ = 0;
};

// Units of a for tile loads: packed, or in place where the memory layout of a allows it.
struct Units {
  const uint16_t* data;
  int64_t unit, tile;  // elements between units, and between the two tiles of one
  int64_t row_bytes;   // between the rows of a tile
  Units at(int64_t s) const { return {data + s * unit, unit, tile, row_bytes}; }
};

// Adds the sums of panels from i on to a_sums; lines come in the order of turned_row().
inline void add_a_sums(const GemmBlock& block, int64_t i, int64_t panels, const float (*sums)[kSide]) {
  for (int64_t place = 0; place < panels * kSide && block.a_sums != nullptr; ++place) {
    const int64_t line = (i + place / kSide) * kSide + turned_row(place % kSide);
    if (line < block.m) block.a_sums[line] += sums[place / kSide][place % kSide];
  }
}

// Packs panels [i, i + panels) of an a whose lines are contiguous, all steps.
template <Form kForm>
inline void pack_group(const Task& task, int64_t i, int64_t panels) {
  alignas(64) float sums[kGroup][kSide] = {};
  if constexpr (kForm == Form::interleaved) {
    if (panels == kGroup)
      pack_panels_of_pairs<kForm, kGroup>(task.a_packed, task.a, i * kSide, task.steps, sums);
    else
      for (int64_t g = 0; g < panels; ++g)
        pack_panels_of_pairs<kForm, 1>(task.a_packed + g * task.steps * kUnit, task.a, (i + g) * kSide,
                                       task.steps, sums + g);
  } else {
    for (int64_t s = 0; s < task.steps; ++s)
      for (int64_t g = 0; g < panels; ++g)
        pack_unit<kForm>(task.a_packed + (g * task.steps + s) * kUnit, task.a, (i + g) * kSide, s * kSide,
                         task.block.a_sums == nullptr ? nullptr : sums[g]);
  }
  add_a_sums(task.block, i, panels, sums);
}

// The units of panel i of a from step `first` on: in place, packed for this pass or packed with their group.
template <Form kForm>
inline Units units_of_a(const Task& task, int64_t i, int64_t first, int64_t count) {
  constexpr int64_t kRowBytes = kSide * sizeof(uint16_t);
  if (kForm == Form::copied) {
    if (task.in_place && (i + 1) * kSide <= task.block.m)
      return {task.a.data + i * kSide * task.a.line + first * kSide, kSide, 16 * task.a.line,
              task.a.line * static_cast<int64_t>(sizeof(uint16_t))};
    uint16_t* const packed = task.a_packed + i % task.a_kept * task.pass_steps * kUnit;
    for (int64_t s = 0; s < count; ++s)
      pack_unit<kForm>(packed + s * kUnit, task.a, i * kSide, (first + s) * kSide);
    return {packed, kUnit, kUnit / 2, kRowBytes};
  }
  if (first == 0 && i % kGroup == 0) pack_group<kForm>(task, i, smaller(kGroup, task.a_panels - i));
  return {task.a_packed + (i % kGroup * task.steps + first) * kUnit, kUnit, kUnit / 2, kRowBytes};
}

// The task of a block, with passes of at most `pass_steps` steps and `a_kept` panels of an a with contiguous k packed
// at a time.
template <Form kForm>
inline Task task_of(const GemmBlock& block, int64_t most_pass_steps, int64_t a_kept = 1) {
  const int64_t steps = num_units(block.k), a_panels = num_units(block.m), b_panels = num_units(block.n);
  const int64_t passes = (steps + most_pass_steps - 1) / most_pass_steps,
                pass_steps = (steps + passes - 1) / passes;
  uint16_t* a_packed = reinterpret_cast<uint16_t*>(block.scratch);
  float* sums = reinterpret_cast<float*>(
      a_packed + (kForm != Form::copied ? kGroup * steps : a_kept * pass_steps) * kUnit);
  float* final = sums + b_panels * kPair;
  Task task{block,
            {static_cast<const uint16_t*>(block.a), block.a_row, block.a_col, block.m, block.k},
            steps,
            pass_steps,
            a_panels,
            b_panels,
            false,
            reinterpret_cast<const uint16_t*>(block.packed_b),
            a_kept,
            a_packed,
            sums,
            final,
            final + 2 * kPair};
  read_bias(task);
  return task;
}

inline Operand b_of(const GemmBlock& block) {
  return {static_cast<const uint16_t*>(block.b), block.b_col, block.b_row, block.n, block.k};
}
inline bool is_transposed(const GemmBlock& block) {
  return block.a_col == 1 && block.b_row == 1;
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
