// The forward pass: some queries of one head. Keys are packed by tiles of 256. For each, every strip of
// 32 queries goes through its cells of 128 keys: scores, softmax, outputs. What a cell writes stays in the
// first-level cache, and the keys of the next tile are fetched meanwhile.
#include "athanor/kernels/cpu/bf16/ahead.h"
#include "athanor/kernels/cpu/bf16/attention.h"
#include "athanor/kernels/cpu/simd/vec_math.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

constexpr int64_t kTileStrips = 8, kTileKeys = kTileStrips * kSide;
constexpr int64_t kCellStrips = 4, kCellKeys = kCellStrips * kSide;
// The reference score of the online softmax is updated only if a score exceeds it by more than this (in powers of two).
// Probabilities and sums may then be up to 2^8 times as large, and the outputs so far are rarely rescaled.
constexpr float kSlack = 8;
constexpr float kLowest = -0x1p126f;

struct Cell {
  int64_t strip, key, key_strips;  // of 32 queries; the first key; strips of 32 keys
};

class Forward {
 public:
  Forward(void* o, float* lse, const void* q, const void* k, const void* v, const AttentionProblem& problem,
          int64_t q_first, int64_t q_count, float* scratch)
      : problem_(problem),
        o_(static_cast<uint16_t*>(o) + q_first * problem.q_stride),
        lse_(lse + q_first),
        k_(static_cast<const uint16_t*>(k)),
        v_(static_cast<const uint16_t*>(v)),
        query_(q_first),
        first_(q_first + problem.offset),
        count_(q_count),
        end_(problem.end_key(q_first + q_count - 1)),
        depth_(strips(problem.head_dim)) {
    Scratch memory{scratch};
    const int64_t count = strips(count_);
    queries_ = memory.elements(count * depth_);
    keys_ = memory.elements(kTileStrips * depth_);
    values_ = memory.elements(kTileStrips * depth_);
    scores_ = memory.floats(kCellStrips);
    weights_ = memory.elements(kCellStrips);
    guarded_ = memory.elements(2 * depth_);
    sums_ = memory.floats(count * depth_);
    tops_ = memory.vectors(2 * count);
    totals_ = memory.vectors(2 * count);
    pack_queries(static_cast<const uint16_t*>(q) + q_first * problem.q_stride);
    if (hides()) start();
  }

  void run() {
    const Operand key_rows{k_, problem_.kv_stride, 1, end_, problem_.head_dim};
    const Operand value_rows{v_, problem_.kv_stride, 1, end_, problem_.head_dim};
    for (int64_t tile = next_tile(0); tile < end_; tile = next_tile(tile + kTileKeys)) {
      pack_tile(tile, smaller(kTileKeys, end_ - tile));
      Ahead keys(key_rows, tile + kTileKeys, kTileKeys), values(value_rows, tile + kTileKeys, kTileKeys);
      // Positions are counted so that query p sees the keys 0 ... p: those of a strip are from first_ + 32 strip on.
      const int64_t first = tile > first_ ? (tile - first_) / kSide : 0;
      const int64_t cells = (strips(count_) - first) * kTileStrips / kCellStrips;
      const int64_t fetches = keys.left() / cells + 1;
      for (int64_t strip = first; strip < strips(count_); ++strip) {
        const int64_t end = smaller(first_ + smaller(count_, (strip + 1) * kSide), end_);
        const int64_t seen = smaller(end - tile, kTileKeys);
        const int64_t hidden = problem_.first_key(query_ + strip * kSide) - tile;
        for (int64_t key = hidden > 0 ? hidden / kCellKeys * kCellKeys : 0; key < seen; key += kCellKeys) {
          keys.fetch(fetches);
          values.fetch(fetches);
          Cell next{strip, tile + key, smaller(strips(seen - key), kCellStrips)};
          if (!hides() || narrow(next)) cell(next);
        }
      }
    }
    tiles_.finish();
    for (int64_t strip = 0; strip < strips(count_); ++strip) write(strip);
  }

 private:
  // The first tile of keys, at or after one, of which the queries may see some; past the end: none. Notes which of its blocks
  // of 64 they are.
  int64_t next_tile(int64_t tile) {
    if (!hides()) return tile;
    int64_t nearest = end_;
    needed_ = 0;
    for (int64_t t = 0; t < count_; t += kSeenBlock) {
      const int64_t count = smaller(kSeenBlock, count_ - t);
      for (int64_t from = tile / kSeenBlock;;) {
        const int64_t block = next_seen_block(problem_, query_ + t, count, from);
        const int64_t found = block * kSeenBlock / kTileKeys * kTileKeys;
        if (block < 0 || found > nearest) break;
        if (found < nearest) needed_ = 0;
        nearest = found;
        needed_ |= 1u << block % (kTileKeys / kSeenBlock);
        from = block + 1;
      }
    }
    return nearest;
  }
  // Whether any query of a cell sees a key of it, where something beside the causal order hides some. Leaves the blocks of keys
  // at its ends that none sees, and notes who sees whom of the others.
  bool narrow(Cell& cell) {
    const int64_t first = cell.strip * kSide, queries = smaller(kSide, count_ - first);
    const int64_t keys = cell.key_strips * kSide;
    seen_by_ = look(problem_, query_ + first, queries, cell.key, smaller(keys, kSeenBlock), seen_);
    if (keys <= kSeenBlock) return seen_by_ != Seen::none;
    __mmask32* const rest = seen_by_ == Seen::none ? seen_ : seen_ + kSeenBlock;
    const Seen second =
        look(problem_, query_ + first, queries, cell.key + kSeenBlock, keys - kSeenBlock, rest);
    constexpr int64_t kBlockStrips = kSeenBlock / kSide;
    if (seen_by_ == Seen::none) {
      cell.key += kSeenBlock;
      cell.key_strips -= kBlockStrips;
      seen_by_ = second;
    } else if (second == Seen::none) {
      cell.key_strips = kBlockStrips;
    } else if (second == Seen::some) {
      seen_by_ = second;
    }
    return seen_by_ != Seen::none;
  }

  // Then the first cell may contain no key that a query sees: start with empty sums.
  bool hides() const { return problem_.hides(); }
  void start() {
    __builtin_memset(sums_, 0, static_cast<size_t>(strips(count_) * depth_ * kUnit) * sizeof(float));
    for (int64_t i = 0; i < strips(count_) * kSide; ++i) {
      tops_[i] = kLowest;
      totals_[i] = 0;
    }
  }
  bool starts(const Cell& cell) const { return cell.key == 0 && !hides(); }

  void cell(const Cell& cell) {
    const int64_t in_tile = cell.key / kSide % kTileStrips;
    for (int64_t s = 0; s < cell.key_strips; ++s)
      tiles_.multiply({.a = keys_ + (in_tile + s) * depth_ * kUnit,
                       .b = queries_ + cell.strip * depth_ * kUnit,
                       .c = scores_ + s * kUnit,
                       .steps = depth_,
                       .starts = true});
    tiles_.finish();
    soften(cell);
    for (int64_t d = 0; d < depth_; ++d)
      tiles_.multiply({.a = values_ + (d * kTileStrips + in_tile) * kUnit,
                       .b = weights_,
                       .c = sums_ + (cell.strip * depth_ + d) * kUnit,
                       .steps = cell.key_strips,
                       .starts = starts(cell)});
  }

  void pack_queries(const uint16_t* q) {
    const Operand rows{q, problem_.q_stride, 1, count_, problem_.head_dim};
    for (int64_t strip = 0; strip < strips(count_); ++strip)
      for (int64_t d = 0; d < depth_; ++d)
        pack_unit<Form::transposed>(queries_ + (strip * depth_ + d) * kUnit, rows, strip * kSide, d * kSide);
    // The largest product is the largest score of a positive scale only.
    if (problem_.scale < 0)
      for (int64_t i = 0; i < strips(count_) * depth_ * kUnit; ++i) queries_[i] ^= 0x8000;
  }
  void pack_tile(int64_t first, int64_t count) {
    for (int64_t strip = 0; strip < strips(count); ++strip) {
      if (hides() && (needed_ >> strip * kSide / kSeenBlock & 1u) == 0) continue;
      const int64_t key = first + strip * kSide, rows = smaller(kSide, count - strip * kSide);
      const uint16_t *k = k_ + key * problem_.kv_stride, *v = v_ + key * problem_.kv_stride;
      int64_t stride = problem_.kv_stride;
      if ((key + rows - 1 > first_ || hides()) && !all_finite(v, rows)) {
        guard(k, v, rows);
        k = guarded_;
        v = guarded_ + depth_ * kUnit;
        stride = depth_ * kSide;
      }
      const Operand key_rows{k, stride, 1, rows, problem_.head_dim};
      const Operand value_columns{v, 1, stride, problem_.head_dim, rows};
      for (int64_t d = 0; d < depth_; ++d) {
        pack_unit<Form::copied>(keys_ + (strip * depth_ + d) * kUnit, key_rows, 0, d * kSide);
        pack_unit<Form::turned>(values_ + (d * kTileStrips + strip) * kUnit, value_columns, d * kSide, 0);
      }
    }
  }

  // A value is multiplied by zero for the queries that do not see it, which hides it only if it is finite. So a value
  // that is not finite becomes zero and its key NaN: the score of a key that is not seen does not count.
  void guard(const uint16_t* k, const uint16_t* v, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, k += problem_.kv_stride, v += problem_.kv_stride) {
      const bool finite = all_finite(v, 1);
      for (int64_t i = 0; i < problem_.head_dim; ++i) {
        guarded_[row * depth_ * kSide + i] = finite ? k[i] : 0x7fc0;
        guarded_[depth_ * kUnit + row * depth_ * kSide + i] = finite ? v[i] : 0;
      }
    }
  }
  bool all_finite(const uint16_t* v, int64_t rows) const {
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    __mmask32 found = 0;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < problem_.head_dim; i += kSide) {
        const __m512i x =
            _mm512_maskz_loadu_epi16(first32(problem_.head_dim - i), v + row * problem_.kv_stride + i);
        found |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
      }
    return found == 0;
  }

  // Scores of a cell become probabilities, relative to the largest so far.
  void soften(const Cell& cell) {
    const float* scores = scores_;
    const int64_t query = first_ + cell.strip * kSide, key = cell.key;
    const int64_t keys = cell.key_strips * kSide;
    const __m512 factor = _mm512_set1_ps((problem_.scale < 0 ? -problem_.scale : problem_.scale) * kLog2E);
    float *top = tops_ + cell.strip * kSide, *total = totals_ + cell.strip * kSide;

    // Rows of scores (keys) that all queries see, and rows that only some queries see.
    const int64_t past = smaller(keys, end_ - key);  // rows beyond are padding
    const int64_t seen_by_all = hides() ? (seen_by_ == Seen::all ? past : 0) : smaller(past, query - key + 1);
    const int64_t clear = seen_by_all > 0 ? seen_by_all / 4 * 4 : 0;
    const auto seeing_row = [&](int64_t r) __attribute__((always_inline)) {
      if (r >= past) return __mmask32{0};
      return hides() ? seen_[r] : seeing(query, key + r);
    };
    const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
    __m512 tops[8] = {lowest, lowest, lowest, lowest, lowest, lowest, lowest, lowest};
    for (int64_t r = 0; r + 4 <= clear; r += 4)
      for (int i = 0; i < 8; ++i)
        tops[i] = _mm512_max_ps(tops[i], _mm512_load_ps(scores + r * kSide + 16 * i));
    __m512 left = _mm512_max_ps(_mm512_max_ps(tops[0], tops[2]), _mm512_max_ps(tops[4], tops[6]));
    __m512 right = _mm512_max_ps(_mm512_max_ps(tops[1], tops[3]), _mm512_max_ps(tops[5], tops[7]));
    for (int64_t r = clear; r < keys; ++r) {
      const __mmask32 seen = seeing_row(r);
      left = _mm512_mask_max_ps(left, static_cast<__mmask16>(seen), left, _mm512_load_ps(scores + r * kSide));
      right = _mm512_mask_max_ps(right, static_cast<__mmask16>(seen >> 16), right,
                                 _mm512_load_ps(scores + r * kSide + 16));
    }
    left *= factor;
    right *= factor;
    if (starts(cell)) {
      _mm512_store_ps(top, left);
      _mm512_store_ps(top + 16, right);
      _mm512_store_ps(total, _mm512_setzero_ps());
      _mm512_store_ps(total + 16, _mm512_setzero_ps());
    } else {
      follow(cell.strip, left, right);
    }

    const __m512 left_top = _mm512_load_ps(top), right_top = _mm512_load_ps(top + 16);
    __m512 left_total = _mm512_load_ps(total), right_total = _mm512_load_ps(total + 16);
    const auto row = [&](int64_t r, __mmask32 seen) __attribute__((always_inline)) {
      const __m512 p = exp2(_mm512_fmsub_ps(_mm512_load_ps(scores + r * kSide), factor, left_top),
                            static_cast<__mmask16>(seen), kExp2Fine);
      const __m512 p2 = exp2(_mm512_fmsub_ps(_mm512_load_ps(scores + r * kSide + 16), factor, right_top),
                             static_cast<__mmask16>(seen >> 16), kExp2Fine);
      left_total += p;
      right_total += p2;
      return as_bf16(p, p2);
    };
    for (int64_t r = 0; r < keys; r += 2) {
      const bool all = r < clear;
      const __m512i even = row(r, all ? ~__mmask32{0} : seeing_row(r));
      const __m512i odd = row(r + 1, all ? ~__mmask32{0} : seeing_row(r + 1));
      store_pairs(weights_ + r / kSide * kUnit, r % kSide / 2, even, odd);
    }
    _mm512_store_ps(total, left_total);
    _mm512_store_ps(total + 16, right_total);
  }

  // Updates the reference scores where the largest scores of a cell are much larger.
  void follow(int64_t strip, __m512 left, __m512 right) {
    float *top = tops_ + strip * kSide, *total = totals_ + strip * kSide;
    const __m512 slack = _mm512_set1_ps(kSlack);
    const __m512 left_top = _mm512_load_ps(top), right_top = _mm512_load_ps(top + 16);
    const __mmask16 left_grown = _mm512_cmp_ps_mask(left, left_top + slack, _CMP_GT_OQ);
    const __mmask16 right_grown = _mm512_cmp_ps_mask(right, right_top + slack, _CMP_GT_OQ);
    if ((left_grown | right_grown) == 0) return;
    const __m512 one = _mm512_set1_ps(1);
    const __m512 left_shrink = _mm512_mask_mov_ps(one, left_grown, exp2(left_top - left, 0xffff, kExp2Fine));
    const __m512 right_shrink =
        _mm512_mask_mov_ps(one, right_grown, exp2(right_top - right, 0xffff, kExp2Fine));
    _mm512_mask_store_ps(top, left_grown, left);
    _mm512_mask_store_ps(top + 16, right_grown, right);
    _mm512_store_ps(total, _mm512_load_ps(total) * left_shrink);
    _mm512_store_ps(total + 16, _mm512_load_ps(total + 16) * right_shrink);
    // Columns of the sums: see turned_row.
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    const __m512i second = _mm512_or_si512(first, _mm512_set1_epi32(4));
    const __m512 first_shrink = _mm512_permutex2var_ps(left_shrink, first, right_shrink);
    const __m512 second_shrink = _mm512_permutex2var_ps(left_shrink, second, right_shrink);
    float* sums = sums_ + strip * depth_ * kUnit;
    for (int64_t i = 0; i < depth_ * kUnit; i += kSide) {
      _mm512_store_ps(sums + i, _mm512_load_ps(sums + i) * first_shrink);
      _mm512_store_ps(sums + i + 16, _mm512_load_ps(sums + i + 16) * second_shrink);
    }
  }

  void write(int64_t strip) {
    const int64_t first = strip * kSide, count = smaller(kSide, count_ - first);
    alignas(64) float inverse[kSide];
    for (int64_t i = 0; i < kSide; i += 16) {
      const __m512 total = _mm512_load_ps(totals_ + first + i);
      const __mmask16 saw =
          hides() ? _mm512_cmp_ps_mask(total, _mm512_setzero_ps(), _CMP_NEQ_UQ) : __mmask16{0xffff};
      _mm512_store_ps(inverse + i, _mm512_maskz_div_ps(saw, _mm512_set1_ps(1), total));
      const __m512 top = _mm512_load_ps(tops_ + first + i);
      const __m512 lse = _mm512_fmadd_ps(top, _mm512_set1_ps(1 / kLog2E), log(V{total}).x);
      _mm512_mask_storeu_ps(lse_ + first + i, static_cast<__mmask16>(first32(count - i)),
                            _mm512_mask_mov_ps(_mm512_set1_ps(-__builtin_inff()), saw, lse));
    }
    write_queries(o_ + first * problem_.q_stride, problem_.q_stride, sums_ + first * depth_ * kSide, count,
                  problem_.head_dim, inverse);
  }

  const AttentionProblem& problem_;
  uint16_t* o_;
  float* lse_;
  const uint16_t *k_, *v_;
  int64_t query_, first_, count_, end_, depth_;
  uint16_t *queries_, *keys_, *values_, *weights_, *guarded_;
  float *scores_, *sums_, *tops_, *totals_;
  TileProducts tiles_;
  uint32_t needed_ = 0;  // bit b: the queries may see block b of the tile's keys
  Seen seen_by_ = Seen::all;
  __mmask32 seen_[kCellKeys];  // of a cell: narrow()
};

}  // namespace

void attention_forward(void* o, float* lse, const void* q, const void* k, const void* v,
                       const AttentionProblem& problem, int64_t q_first, int64_t q_count, float* scratch) {
  Forward(o, lse, q, k, v, problem, q_first, q_count, scratch).run();
}

int64_t attention_forward_floats(int64_t head_dim, int64_t q_count) {
  const int64_t depth = strips(head_dim), count = strips(q_count);
  const int64_t half_units = (count + 2 * kTileStrips + 2) * depth + kCellStrips;  // of bf16
  return (half_units / 2 + 1 + kCellStrips + count * depth) * kUnit + 2 * count * kSide;
}

}  // namespace athanor::kernels::ATHANOR_ISA
