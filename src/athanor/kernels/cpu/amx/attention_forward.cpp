// The forward pass: up to 256 queries of one head. Work goes by cells, 32 queries and up to 128 keys. While
// the softmax of a cell is computed, the stream makes the scores of the next and the outputs of the one
// before.
#include "athanor/kernels/cpu/amx/attention.h"
#include "athanor/kernels/cpu/simd/vec_math.h"

namespace athanor::amx {
namespace {

constexpr int64_t kCellStrips = 4, kCellKeys = kCellStrips * kSide;
// A largest score is followed only when it has grown by more than this (in powers of two): probabilities and
// their sums may as well be 2^8 times as large, and outputs so far need scaling down but rarely.
constexpr float kSlack = 8;

struct Cell {
  int64_t tile, strip;  // of 128 keys, of 32 queries
  int64_t key_strips;
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
        first_(q_first + problem.keys - problem.queries),
        count_(q_count),
        depth_(strips(problem.head_dim)) {
    Scratch memory{scratch};
    queries_ = memory.elements(kStrips * depth_);
    for (int i = 0; i < 2; ++i) {
      keys_[i] = memory.elements(kCellStrips * depth_);
      values_[i] = memory.elements(kCellStrips * depth_);
      scores_[i] = memory.floats(kCellStrips);
      weights_[i] = memory.elements(kCellStrips);
    }
    sums_ = memory.floats(kStrips * depth_);
    tops_ = memory.floats(1);
    totals_ = tops_ + kAttentionBlock;
    pack_queries(static_cast<const uint16_t*>(q) + q_first * problem.q_stride);
  }

  void run() {
    Cell next = cell(0, 0);
    pack_tile(0);
    push_scores(next, 0);
    stream_.drain();
    for (int64_t turn = 0; next.key_strips > 0; turn ^= 1) {
      const Cell present = next;
      next = after(present);
      if (next.key_strips > 0) {
        if (next.tile != present.tile) {
          stream_.drain();
          pack_tile(next.tile);
        }
        push_scores(next, 1 - turn);
      }
      soften(present, turn);
      stream_.drain();
      for (int64_t d = 0; d < depth_; ++d)
        stream_.push({.a = values_[present.tile % 2] + d * kCellStrips * kUnit,
                      .b = weights_[turn],
                      .c = sums_ + (present.strip * depth_ + d) * kUnit,
                      .steps = present.key_strips,
                      .starts = present.tile == 0});
    }
    stream_.drain();
    for (int64_t strip = 0; strip < strips(count_); ++strip) write(strip);
  }

 private:
  // Positions are counted so that query p sees the keys 0 ... p: those of the strip are from first_ +
  // 32 strip on.
  Cell cell(int64_t tile, int64_t strip) const {
    const int64_t end = first_ + smaller(count_, (strip + 1) * kSide);
    const int64_t key_strips = strips(end - tile * kCellKeys);
    return {tile, strip, key_strips < 0 ? 0 : smaller(key_strips, kCellStrips)};
  }
  // Strips that see nothing of a tile come before those that do. The last: a cell without keys.
  Cell after(const Cell& present) const {
    Cell next = present;
    do {
      if (next.strip + 1 < strips(count_))
        next = cell(next.tile, next.strip + 1);
      else if ((next.tile + 1) * kCellKeys < first_ + count_)
        next = cell(next.tile + 1, 0);
      else
        return {};
    } while (next.key_strips == 0);
    return next;
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
  void pack_tile(int64_t tile) {
    const int64_t stride = problem_.kv_stride, width = problem_.head_dim, first = tile * kCellKeys;
    const int64_t count = smaller(kCellKeys, first_ + count_ - first);
    const Operand key_rows{k_ + first * stride, stride, 1, count, width};
    const Operand value_columns{v_ + first * stride, 1, stride, width, count};
    for (int64_t strip = 0; strip < strips(count); ++strip)
      for (int64_t d = 0; d < depth_; ++d) {
        pack_unit<Form::copied>(keys_[tile % 2] + (strip * depth_ + d) * kUnit, key_rows, strip * kSide,
                                d * kSide);
        pack_unit<Form::turned>(values_[tile % 2] + (d * kCellStrips + strip) * kUnit, value_columns,
                                d * kSide, strip * kSide);
      }
  }

  void push_scores(const Cell& cell, int64_t turn) {
    for (int64_t s = 0; s < cell.key_strips; ++s)
      stream_.push({.a = keys_[cell.tile % 2] + s * depth_ * kUnit,
                    .b = queries_ + cell.strip * depth_ * kUnit,
                    .c = scores_[turn] + s * kUnit,
                    .steps = depth_,
                    .starts = true});
  }

  // Scores of a cell become probabilities, relative to the largest so far.
  void soften(const Cell& cell, int64_t turn) {
    const float* scores = scores_[turn];
    const int64_t query = first_ + cell.strip * kSide, key = cell.tile * kCellKeys;
    const int64_t keys = cell.key_strips * kSide;
    const __m512 factor = _mm512_set1_ps((problem_.scale < 0 ? -problem_.scale : problem_.scale) * kLog2E);
    float *top = tops_ + cell.strip * kSide, *total = totals_ + cell.strip * kSide;

    // Rows of scores that all of the queries see, and those of which some see a part.
    const int64_t clear = query < key ? 0 : smaller(keys, (query - key + 1) / 2 * 2);
    __m512 left = _mm512_set1_ps(-__builtin_inff()), right = left;
    for (int64_t r = 0; r < clear; ++r) {
      left = _mm512_max_ps(left, _mm512_load_ps(scores + r * kSide));
      right = _mm512_max_ps(right, _mm512_load_ps(scores + r * kSide + 16));
    }
    for (int64_t r = clear; r < keys; ++r) {
      const __mmask32 seen = seeing(query, key + r, 0);
      left = _mm512_mask_max_ps(left, static_cast<__mmask16>(seen), left, _mm512_load_ps(scores + r * kSide));
      right = _mm512_mask_max_ps(right, static_cast<__mmask16>(seen >> 16), right,
                                 _mm512_load_ps(scores + r * kSide + 16));
    }
    left *= factor;
    right *= factor;
    if (cell.tile == 0) {
      _mm512_store_ps(top, left);
      _mm512_store_ps(top + 16, right);
      _mm512_store_ps(total, _mm512_setzero_ps());
      _mm512_store_ps(total + 16, _mm512_setzero_ps());
    } else {
      follow(cell.strip, left, right);
    }

    const __m512 left_top = _mm512_load_ps(top), right_top = _mm512_load_ps(top + 16);
    __m512 left_total = _mm512_load_ps(total), right_total = _mm512_load_ps(total + 16);
    Pace pace(stream_, keys / 2);
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
      pace.turn();
      const bool all = r < clear;
      const __m512i even = all ? row(r, ~__mmask32{0}) : row(r, seeing(query, key + r, 0));
      const __m512i odd = all ? row(r + 1, ~__mmask32{0}) : row(r + 1, seeing(query, key + r + 1, 0));
      store_pairs(weights_[turn] + r / kSide * kUnit, r % kSide / 2, even, odd);
    }
    _mm512_store_ps(total, left_total);
    _mm512_store_ps(total + 16, right_total);
  }

  // Where the largest scores of a cell are much larger than those before, they take their place.
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
    stream_.drain();  // outputs of the cell before may be those of this strip
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
      _mm512_store_ps(inverse + i, _mm512_set1_ps(1) / total);
      const __m512 top = _mm512_load_ps(tops_ + first + i);
      _mm512_mask_storeu_ps(lse_ + first + i, static_cast<__mmask16>(first32(count - i)),
                            _mm512_fmadd_ps(top, _mm512_set1_ps(1 / kLog2E), log(V{total}).x));
    }
    write_queries(o_ + first * problem_.q_stride, problem_.q_stride, sums_ + first * depth_ * kSide, count,
                  problem_.head_dim, inverse);
  }

  const AttentionProblem& problem_;
  uint16_t* o_;
  float* lse_;
  const uint16_t *k_, *v_;
  int64_t first_, count_, depth_;
  uint16_t *queries_, *keys_[2], *values_[2], *weights_[2];
  float *scores_[2], *sums_, *tops_, *totals_;
  TileStream stream_;
};

}  // namespace

void attention_forward(void* o, float* lse, const void* q, const void* k, const void* v,
                       const AttentionProblem& problem, int64_t q_first, int64_t q_count, float* scratch) {
  Forward(o, lse, q, k, v, problem, q_first, q_count, scratch).run();
}

int64_t attention_forward_floats(int64_t head_dim) {
  const int64_t depth = strips(head_dim);
  const int64_t half_units = kStrips * depth + 4 * kCellStrips * depth + 2 * kCellStrips;  // of bf16
  return (half_units / 2 + 2 * kCellStrips + kStrips * depth + 1) * kUnit;
}

}  // namespace athanor::amx
