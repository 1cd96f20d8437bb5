// bf16 products on the tile registers. The results of a panel of a and a panel of b are accumulated in four tiles. What
// keeps the tile unit busy, besides bf16/gemm.h:
//
// - b is loaded with a streaming hint, so that it does not displace a in the first-level cache.
// - The tiles of a finished pair of panels are stored during the first step of the next pair, and read again, a few
//   lines a step, during the pair after that. All at once would leave the tile unit idle, and a read before the store
//   has reached the first-level cache would hold up the reads behind it.
// - If k has several ranges, the tiles of a pair are stored to, and loaded from, the pair's sums (PairSums). Pairs are
//   contiguous, so the processor's own prefetcher fetches them; lines of c are far apart and would need prefetches.
#include <utility>

#include "athanor/kernels/cpu/amx/tile_config.h"
#include "athanor/kernels/cpu/bf16/gemm.h"

namespace athanor::kernels::amx {
namespace {

constexpr int64_t kPassSteps = 16;  // of 32 k: a panel's share, 32 KiB, stays in the first-level cache

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

// A pair in memory: [32][32] f32.
constexpr int64_t kPairRow = kSide * 4, kRight = 16, kBelow = 16 * kSide;

[[gnu::always_inline]] inline void store_tiles(float* to) {
  _tile_stored(0, to, kPairRow);
  _tile_stored(1, to + kRight, kPairRow);
  _tile_stored(2, to + kBelow, kPairRow);
  _tile_stored(3, to + kBelow + kRight, kPairRow);
}

// The first step of a pass. It stores the tiles of the previous pair, and starts this pair's sums (kBegin) or loads
// them.
template <bool kBegin>
[[gnu::always_inline]] inline void first_step(const Units& a, const uint16_t* b, float* before,
                                              const float* sums) {
  _tile_stream_loadd(6, b, 64);
  _tile_loadd(4, a.data, a.row_bytes);
  _tile_stored(0, before, kPairRow);
  if (kBegin)
    _tile_zero(0);
  else
    _tile_loadd(0, sums, kPairRow);
  _tile_dpbf16ps(0, 4, 6);
  _tile_stream_loadd(7, b + kUnit / 2, 64);
  _tile_stored(1, before + kRight, kPairRow);
  if (kBegin)
    _tile_zero(1);
  else
    _tile_loadd(1, sums + kRight, kPairRow);
  _tile_dpbf16ps(1, 4, 7);
  _tile_loadd(5, a.data + a.tile, a.row_bytes);
  _tile_stored(2, before + kBelow, kPairRow);
  if (kBegin)
    _tile_zero(2);
  else
    _tile_loadd(2, sums + kBelow, kPairRow);
  _tile_dpbf16ps(2, 5, 6);
  _tile_stored(3, before + kBelow + kRight, kPairRow);
  if (kBegin)
    _tile_zero(3);
  else
    _tile_loadd(3, sums + kBelow + kRight, kPairRow);
  _tile_dpbf16ps(3, 5, 7);
}

// Whether a panel of a pass stays in the first-level cache without packing: it takes at most two thirds of the ways of
// any of the 64 sets of 64-byte lines. Rows whose length is a high power of two fail.
inline bool lies_well(const GemmBlock& block, int64_t pass_steps) {
  constexpr int64_t kSets = 64, kMost = 8;
  if (block.a_col != 1 || block.k % kSide != 0 || block.a_row % kSide != 0) return false;
  int64_t lines[kSets] = {};
  for (int64_t i = 0; i < kSide; ++i)
    for (int64_t s = 0; s < pass_steps; ++s)
      if (++lines[(i * block.a_row / kSide + s) % kSets] > kMost) return false;
  return true;
}

// How results are written: rounded, as f32, added to c, or with streaming stores; `any` handles every case.
enum class Kind { any, rounded, f32, f32_sums, f32_streamed };

inline Kind kind_of(const GemmBlock& block) {
  if (block.accumulate) return Kind::f32_sums;
  if (block.residual != nullptr) return Kind::any;
  // A fresh gradient is larger than what caches keep until it is read.
  if (block.a_col != 1)
    return reinterpret_cast<uintptr_t>(block.c) % 64 == 0 && block.c_row % 16 == 0 ? Kind::f32_streamed
                                                                                   : Kind::any;
  return block.out == kF32 ? Kind::f32 : Kind::rounded;
}

// Writes a finished pair of panels, whose tiles lie in memory, a few lines of c at a time. Slow lines would hold up the
// tile unit, so complete pairs have a specialized loop for each kind of result.
template <Form kForm, Kind kKind>
class PairWriter {
  static constexpr bool kTurned = kForm == Form::turned;

 public:
  explicit PairWriter(const Task& task) : task_(task), writer_(task), from_(task.final), bias_(task.bias) {}

  [[gnu::always_inline]] void expect(int64_t row, int64_t column) const { writer_.expect(row, column); }
  // Begins the pair at (row, column); the previous pair must be finished.
  void begin(const float* pair, int64_t row, int64_t column) {
    const GemmBlock& block = task_.block;
    writer_.at(row, column);
    from_ = pair;
    next_ = 0;
    fast_ = kKind != Kind::any && block.m - row >= kSide && block.n - column >= kSide;
    first_ = row * block.c_row + column;
    bias_ = task_.bias + column;
  }
  [[gnu::always_inline]] void lines(int64_t count) {
    const int64_t end = smaller(kSide, next_ + count);
    if (next_ == end) return;
    if (!fast_) {
      any_lines(writer_, from_, next_, end);
      from_ += (end - next_) * kSide;
      next_ = end;
      return;
    }
    const __m512 low_bias = _mm512_load_ps(bias_), high_bias = _mm512_load_ps(bias_ + 16);
    for (; next_ < end; ++next_, from_ += kSide) {
      const int64_t at = first_ + (kTurned ? turned_row(next_) : next_) * task_.block.c_row;
      __m512 low = _mm512_load_ps(from_) + low_bias, high = _mm512_load_ps(from_ + 16) + high_bias;
      if constexpr (kKind == Kind::rounded) {
        _mm512_storeu_si512(static_cast<uint16_t*>(task_.block.c) + at, rounded(low, high));
      } else {
        float* const c = static_cast<float*>(task_.block.c) + at;
        if constexpr (kKind == Kind::f32_sums) {
          low += _mm512_loadu_ps(c);
          high += _mm512_loadu_ps(c + 16);
        }
        if constexpr (kKind == Kind::f32_streamed) {
          _mm512_stream_ps(c, low);
          _mm512_stream_ps(c + 16, high);
        } else {
          _mm512_storeu_ps(c, low);
          _mm512_storeu_ps(c + 16, high);
        }
      }
    }
  }
  void finish() { lines(kSide); }

 private:
  // Static, so that the line counters stay in registers.
  [[gnu::noinline]] static void any_lines(const Writer<kTurned>& writer, const float* from, int64_t i,
                                          int64_t end) {
    for (; i < end; ++i, from += kSide) writer.write(i, _mm512_load_ps(from), _mm512_load_ps(from + 16));
  }

  const Task& task_;
  Writer<kTurned> writer_;
  bool fast_ = false;
  const float *from_, *bias_;
  int64_t first_ = 0, next_ = kSide;
};

// Prefetches the sums of the next pairs, some lines a step; they are contiguous.
class PairsAhead {
 public:
  PairsAhead(const float* pair, int64_t steps)
      : at_(pair), lines_(pair == nullptr ? 0 : (kPairLines + steps - 1) / steps) {}
  [[gnu::always_inline]] void fetch() {
    for (int64_t i = 0; i < lines_; ++i, at_ += kLine) _mm_prefetch(at_, _MM_HINT_T1);
  }

 private:
  static constexpr int64_t kLine = 16, kPairLines = kPair / kLine;
  const float* at_;
  int64_t lines_;
};

template <Form kForm, Kind kKind>
void multiply(const Task& task) {
  const int64_t steps = task.steps;
  const int64_t pass_steps = task.pass_steps;
  const PairSums& pairs = task.block.pairs;
  // The tiles in the registers are stored to `before` in the first step of the next pair of panels. The final sums of c
  // from (row, column) stay in one of two buffers until the pair after that, which writes their lines.
  float* places[2] = {task.final, task.final + kPair};
  float* before = places[0];
  int64_t row = 0, column = 0;
  bool done = false;
  PairWriter<kForm, kKind> writer(task);
  for (int64_t i = 0; i < task.a_panels; ++i) {
    Ahead ahead(task.a, (i + 1) * kSide, kSide);
    const int64_t rate = (ahead.left() + task.b_panels * steps - 1) / (task.b_panels * steps);
    for (int64_t first = 0; first < steps; first += pass_steps) {
      const int64_t count = smaller(pass_steps, steps - first);
      const int64_t lines = (kSide + count - 1) / count;
      const Units a = units_of_a<kForm>(task, i, first, count);
      asm volatile("" ::: "memory");  // tile loads do not tell the compiler what they read
      for (int64_t j = 0; j < task.b_panels; ++j) {
        const uint16_t* b = task.b_packed + (j * steps + first) * kUnit;
        float* const waiting = task.sums + j * kPair;
        float* const pair = pairs.data == nullptr ? nullptr : pairs.data + i * pairs.row + j * kPair;
        const bool ends = first + count == steps;
        PairsAhead pairs_ahead(first == 0 && !pairs.first ? pair + kPair : nullptr, count);
        if (first == 0 && pairs.first)
          first_step<true>(a, b, before, waiting);
        else
          first_step<false>(a, b, before, first == 0 ? pair : waiting);
        if (done) writer.expect(row, column);
        writer.lines(lines);
        ahead.fetch(rate);
        for (int64_t s = 1; s < count; ++s) {
          step(a.at(s), b + s * kUnit);
          writer.lines(lines);
          ahead.fetch(rate);
          pairs_ahead.fetch();
        }
        writer.finish();
        if (done) writer.begin(before, row, column);
        row = i * kSide;
        column = j * kSide;
        done = ends && pairs.last;
        if (done) std::swap(places[0], places[1]);
        before = done ? places[0] : ends ? pair : waiting;
      }
    }
  }
  writer.finish();
  store_tiles(before);
  if (!done) return;
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
  const Kind kind = kind_of(block);
  if (block.a_col != 1) {
    const Task task = task_of<Form::turned>(block, kPassSteps);
    (kind == Kind::f32_sums       ? multiply<Form::turned, Kind::f32_sums>
     : kind == Kind::f32_streamed ? multiply<Form::turned, Kind::f32_streamed>
                                  : multiply<Form::turned, Kind::any>)(task);
  } else {
    Task task = task_of<Form::copied>(block, kPassSteps);
    task.in_place = lies_well(block, task.pass_steps);
    constexpr void (*kMultiply[])(const Task&) = {
        multiply<Form::copied, Kind::any>, multiply<Form::copied, Kind::rounded>,
        multiply<Form::copied, Kind::f32>, multiply<Form::copied, Kind::f32_sums>};
    kMultiply[static_cast<int>(kind)](task);
  }
  _tile_release();
}

}  // namespace athanor::kernels::amx
