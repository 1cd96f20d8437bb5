// The backward pass of one pair of blocks, 256 keys and 256 queries of one head: first p and ds of the pair, by cells
// of 32 queries and 64 keys, then their contributions to dv, dk and dq.
#include "athanor/kernels/cpu/bf16/attention.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

constexpr int64_t kCellStrips = 2;  // of keys: their scores stay in the first-level cache

class Backward {
 public:
  Backward(const AttentionGradients& gradients, const AttentionProblem& problem, const AttentionPair& pair,
           float* scratch)
      : g_(gradients),
        problem_(problem),
        pair_(pair),
        query_(pair.query * kAttentionBlock),
        key_(pair.key * kAttentionBlock),
        queries_count_(smaller(kAttentionBlock, problem.queries - query_)),
        keys_count_(smaller(kAttentionBlock, problem.keys - key_)),
        query_strips_(strips(queries_count_)),
        key_strips_(strips(keys_count_)),
        depth_(strips(problem.head_dim)) {
    Scratch memory{scratch};
    const int64_t block = kStrips * depth_;
    queries_t_ = memory.elements(block);
    d_out_t_ = memory.elements(block);
    queries_ = memory.elements(block);
    d_out_ = memory.elements(block);
    scores_ = memory.floats(2 * kCellStrips);
    p_ = memory.elements(kStrips * kStrips);
    ds_ = memory.elements(kStrips * kStrips);
    ds_pairs_ = memory.elements(kStrips * kStrips);
    lse_ = memory.floats(1);
    delta_ = lse_ + kAttentionBlock;
    memory.floats(pair.key_slot * 3 * block / 2);
    keys_ = memory.elements(block);
    values_ = memory.elements(block);
    keys_t_ = memory.elements(block);
    if (problem.hides() && !pair.keeps) find_used();
    if (!pair.has_query) pack_queries();
    if (!pair.has_key) pack_keys();
  }

  void run() {
    for (int64_t q = 0; q < query_strips_; ++q)
      for (int64_t k = 0; k < end_key(q); k += kCellStrips) {
        const int64_t end = smaller(k + kCellStrips, end_key(q));
        if (see(q, k, end) == Seen::none) continue;
        prefetch_sums(q, k);
        for (int64_t strip = k; strip < end; ++strip) {
          queries_of_[strip] |= 1u << q;
          keys_of_[q] |= 1u << strip;
        }
        cell(q, k, end);
      }
    add_key_sums(p_, d_out_, g_.dv_sums);
    add_key_sums(ds_, queries_, g_.dk_sums);
    add_query_sums();
    tiles_.finish();
    if (pair_.ends_dkv) write_key_block();
    if (pair_.ends_dq) write_query_block();
  }

 private:
  // Blocks on the causal diagonal; without a causal mask there is none.
  bool diagonal() const { return pair_.query == pair_.key && problem_.offset == 0; }
  int64_t end_key(int64_t query) const { return diagonal() ? query + 1 : key_strips_; }

  // The strips of the pair that see or are seen: nothing else of it need be packed.
  void find_used() {
    queries_used_ = keys_used_ = 0;
    for (int64_t q = 0; q < queries_count_; q += kSeenBlock)
      for (int64_t k = 0; k < keys_count_; k += kSeenBlock) {
        const AttentionTile tile{query_ + q, smaller(kSeenBlock, queries_count_ - q), key_ + k,
                                 smaller(kSeenBlock, keys_count_ - k)};
        if (!may_see(problem_, tile)) continue;
        constexpr uint32_t kBlock = (1u << kSeenBlock / kSide) - 1;
        queries_used_ |= kBlock << q / kSide;
        keys_used_ |= kBlock << k / kSide;
      }
  }

  void pack_queries() {
    const int64_t width = problem_.head_dim, stride = problem_.q_stride;
    const uint16_t* q = static_cast<const uint16_t*>(g_.q) + query_ * stride;
    const uint16_t* d_o = static_cast<const uint16_t*>(g_.d_o) + query_ * stride;
    const Operand q_rows{q, stride, 1, queries_count_, width}, q_columns{q, 1, stride, width, queries_count_};
    const Operand d_o_rows{d_o, stride, 1, queries_count_, width};
    const Operand d_o_columns{d_o, 1, stride, width, queries_count_};
    for (int64_t s = 0; s < query_strips_; ++s)
      for (int64_t d = 0; d < depth_ && (queries_used_ >> s & 1u) != 0; ++d) {
        const int64_t by_strip = (s * depth_ + d) * kUnit, by_depth = (d * kStrips + s) * kUnit;
        pack_unit<Form::transposed>(queries_t_ + by_strip, q_rows, s * kSide, d * kSide);
        pack_unit<Form::paired>(queries_ + by_depth, q_columns, d * kSide, s * kSide);
        pack_unit<Form::transposed>(d_out_t_ + by_strip, d_o_rows, s * kSide, d * kSide);
        pack_unit<Form::paired>(d_out_ + by_depth, d_o_columns, d * kSide, s * kSide);
      }
    for (int64_t i = 0; i < query_strips_ * kSide; i += 16) {
      const auto mask = static_cast<__mmask16>(first32(queries_count_ - i));
      _mm512_store_ps(lse_ + i, _mm512_maskz_loadu_ps(mask, g_.lse + query_ + i) * _mm512_set1_ps(kLog2E));
      _mm512_store_ps(delta_ + i, _mm512_maskz_loadu_ps(mask, g_.delta + query_ + i));
    }
  }
  void pack_keys() {
    const int64_t width = problem_.head_dim, stride = problem_.kv_stride;
    const uint16_t* k = static_cast<const uint16_t*>(g_.k) + key_ * stride;
    const uint16_t* v = static_cast<const uint16_t*>(g_.v) + key_ * stride;
    const Operand k_rows{k, stride, 1, keys_count_, width}, v_rows{v, stride, 1, keys_count_, width};
    const Operand k_columns{k, 1, stride, width, keys_count_};
    for (int64_t s = 0; s < key_strips_; ++s)
      for (int64_t d = 0; d < depth_ && (keys_used_ >> s & 1u) != 0; ++d) {
        const int64_t by_strip = (s * depth_ + d) * kUnit, by_depth = (d * kStrips + s) * kUnit;
        pack_unit<Form::copied>(keys_ + by_strip, k_rows, s * kSide, d * kSide);
        pack_unit<Form::turned>(keys_t_ + by_depth, k_columns, d * kSide, s * kSide);
        pack_unit<Form::copied>(values_ + by_strip, v_rows, s * kSide, d * kSide);
      }
  }

  // Prefetches the part of the block's sums that corresponds to this cell, so that all sums are near before they are
  // used.
  void prefetch_sums(int64_t q, int64_t k) {
    const int64_t first = (q * kStrips + k) * depth_ * kUnit / kStrips;
    for (int64_t i = first; i < first + kCellStrips * depth_ * kUnit / kStrips; i += 16) {
      if (!pair_.starts_dq) _mm_prefetch(g_.dq_sums + i, _MM_HINT_T1);
      if (pair_.starts_dkv) continue;
      _mm_prefetch(g_.dk_sums + i, _MM_HINT_T1);
      _mm_prefetch(g_.dv_sums + i, _MM_HINT_T1);
    }
  }

  // Which queries of a strip see which keys of a few strips.
  Seen see(int64_t q, int64_t first, int64_t end) {
    if (problem_.hides()) {
      const int64_t queries = smaller(kSide, queries_count_ - q * kSide);
      return look(problem_, query_ + q * kSide, queries, key_ + first * kSide, (end - first) * kSide, seen_);
    }
    for (int64_t k = first; k < end; ++k) {
      if (!is_masked(q, k)) continue;
      for (int64_t key = k * kSide; key < (k + 1) * kSide; ++key) {
        const __mmask32 seen = diagonal() ? seeing(q * kSide, key) : ~__mmask32{0};
        seen_[key - first * kSide] = key < keys_count_ ? seen : 0;
      }
    }
    return Seen::some;
  }
  // Whether some pairs of a strip of queries and one of keys may be hidden, or beyond the last key.
  bool is_masked(int64_t q, int64_t k) const {
    return problem_.hides() || (diagonal() && k == q) ||
           (problem_.offset != 0 && (k + 1) * kSide > keys_count_);
  }

  // p and ds of the queries of one strip and keys of a few.
  void cell(int64_t q, int64_t first, int64_t end) {
    for (int64_t k = first; k < end; ++k) {
      tiles_.multiply({.a = keys_ + k * depth_ * kUnit,
                       .b = queries_t_ + q * depth_ * kUnit,
                       .c = scores_ + 2 * (k - first) * kUnit,
                       .steps = depth_,
                       .starts = true});
      tiles_.multiply({.a = values_ + k * depth_ * kUnit,
                       .b = d_out_t_ + q * depth_ * kUnit,
                       .c = scores_ + (2 * (k - first) + 1) * kUnit,
                       .steps = depth_,
                       .starts = true});
    }
    tiles_.finish();
    for (int64_t k = first; k < end; ++k) {
      const float* scores = scores_ + 2 * (k - first) * kUnit;
      const __mmask32* seen = seen_ + (k - first) * kSide;
      if (is_masked(q, k))
        soften<true>(k, q, scores, scores + kUnit, seen);
      else
        soften<false>(k, q, scores, scores + kUnit, seen);
    }
  }

  void add_key_sums(const uint16_t* weights, const uint16_t* rows, float* sums) {
    for (int64_t d = 0; d < depth_; ++d)
      for (int64_t k = 0; k < key_strips_; ++k)
        add_runs(queries_of_[k], weights + k * kStrips * kUnit, rows + d * kStrips * kUnit,
                 sums + (k * depth_ + d) * kUnit, pair_.starts_dkv);
  }
  void add_query_sums() {
    for (int64_t q = 0; q < query_strips_; ++q)
      for (int64_t d = 0; d < depth_; ++d)
        add_runs(keys_of_[q], keys_t_ + d * kStrips * kUnit, ds_pairs_ + q * kStrips * kUnit,
                 g_.dq_sums + (q * depth_ + d) * kUnit, pair_.starts_dq);
  }
  // The products of the strips that are seen, bit s of `strips`: run after run.
  void add_runs(uint32_t strips, const uint16_t* a, const uint16_t* b, float* sum, bool starts) {
    if (strips == 0 && starts) {
      tiles_.finish();
      __builtin_memset(sum, 0, kUnit * sizeof(float));
    }
    while (strips != 0) {
      const int first = __builtin_ctz(strips), count = __builtin_ctz(~(strips >> first));
      tiles_.multiply(
          {.a = a + first * kUnit, .b = b + first * kUnit, .c = sum, .steps = count, .starts = starts});
      starts = false;
      strips &= ~(((1u << count) - 1) << first);
      if (strips != 0) tiles_.finish();  // the next product adds to the same sum
    }
  }

  template <bool kMasked>
  void soften(int64_t k, int64_t q, const float* scores, const float* d_weights, const __mmask32* seen_rows) {
    uint16_t *p_unit = p_ + (k * kStrips + q) * kUnit, *ds_unit = ds_ + (k * kStrips + q) * kUnit;
    uint16_t* pairs = ds_pairs_ + (q * kStrips + k) * kUnit;
    const __m512 factor = _mm512_set1_ps(problem_.scale * kLog2E);
    const __m512 lse[2] = {_mm512_load_ps(lse_ + q * kSide), _mm512_load_ps(lse_ + q * kSide + 16)};
    const __m512 delta[2] = {_mm512_load_ps(delta_ + q * kSide), _mm512_load_ps(delta_ + q * kSide + 16)};
    const auto row = [&](int64_t r) __attribute__((always_inline)) {
      const __mmask32 seen = kMasked ? seen_rows[r] : ~__mmask32{0};
      const auto left = static_cast<__mmask16>(seen), right = static_cast<__mmask16>(seen >> 16);
      const __m512 p = exp2(_mm512_fmsub_ps(_mm512_load_ps(scores + r * kSide), factor, lse[0]), left, kExp2);
      const __m512 p2 =
          exp2(_mm512_fmsub_ps(_mm512_load_ps(scores + r * kSide + 16), factor, lse[1]), right, kExp2);
      const __m512 ds = _mm512_maskz_mul_ps(left, p, _mm512_load_ps(d_weights + r * kSide) - delta[0]);
      const __m512 ds2 =
          _mm512_maskz_mul_ps(right, p2, _mm512_load_ps(d_weights + r * kSide + 16) - delta[1]);
      const __m512i ds_row = as_bf16(ds, ds2);
      _mm512_store_si512(p_unit + r * kSide, as_bf16(p, p2));
      _mm512_store_si512(ds_unit + r * kSide, ds_row);
      return ds_row;
    };
    for (int64_t r = 0; r < kSide; r += 2) {
      const __m512i even = row(r), odd = row(r + 1);
      store_pairs(pairs, r / 2, even, odd);
    }
  }

  void write_key_block() {
    for (int64_t s = 0; s < key_strips_; ++s) {
      const int64_t first = (key_ + s * kSide) * problem_.kv_stride, count = keys_count_ - s * kSide;
      write_keys(static_cast<uint16_t*>(g_.dk) + first, problem_.kv_stride, g_.dk_sums + s * depth_ * kUnit,
                 count, problem_.head_dim, problem_.scale);
      write_keys(static_cast<uint16_t*>(g_.dv) + first, problem_.kv_stride, g_.dv_sums + s * depth_ * kUnit,
                 count, problem_.head_dim, 1);
    }
  }
  void write_query_block() {
    float factors[kSide];
    for (float& factor : factors) factor = problem_.scale;
    for (int64_t s = 0; s < query_strips_; ++s)
      write_queries(static_cast<uint16_t*>(g_.dq) + (query_ + s * kSide) * problem_.q_stride,
                    problem_.q_stride, g_.dq_sums + s * depth_ * kUnit, queries_count_ - s * kSide,
                    problem_.head_dim, factors);
  }

  const AttentionGradients& g_;
  const AttentionProblem& problem_;
  const AttentionPair& pair_;
  int64_t query_, key_, queries_count_, keys_count_, query_strips_, key_strips_, depth_;
  uint16_t *queries_t_, *d_out_t_, *queries_, *d_out_, *keys_, *values_, *keys_t_;
  uint16_t *p_, *ds_, *ds_pairs_;
  float *scores_, *lse_, *delta_;
  TileProducts tiles_;
  uint32_t queries_used_ = (1u << kStrips) - 1, keys_used_ = queries_used_;  // bit s: strip s is packed
  __mmask32 seen_[kCellStrips * kSide];                                      // of a cell: see()
  uint32_t queries_of_[kStrips] = {},
           keys_of_[kStrips] = {};  // that see a strip of keys, or are seen by one of queries
};

}  // namespace

void attention_backward(const AttentionGradients& gradients, const AttentionProblem& problem,
                        const AttentionPair& pair, float* scratch) {
  Backward(gradients, problem, pair, scratch).run();
}

void attention_combine(const AttentionGradients& g, const AttentionProblem& problem, int64_t key,
                       int64_t group, int64_t stride) {
  const int64_t first = key * kAttentionBlock, count = smaller(kAttentionBlock, problem.keys - first);
  const int64_t depth = strips(problem.head_dim);
  alignas(64) float total[kUnit];
  const auto combine = [&](void* to, const float* sums, float factor) {
    for (int64_t s = 0; s < strips(count); ++s)
      for (int64_t d = 0; d < depth; ++d) {
        const float* unit = sums + (s * depth + d) * kUnit;
        for (int64_t i = 0; i < kUnit; i += 16) {
          __m512 sum = _mm512_load_ps(unit + i);
          for (int64_t head = 1; head < group; ++head) sum += _mm512_load_ps(unit + head * stride + i);
          _mm512_store_ps(total + i, sum);
        }
        uint16_t* rows = static_cast<uint16_t*>(to) + (first + s * kSide) * problem.kv_stride + d * kSide;
        write_keys(rows, problem.kv_stride, total, count - s * kSide,
                   smaller(kSide, problem.head_dim - d * kSide), factor);
      }
  };
  combine(g.dk, g.dk_sums, problem.scale);
  combine(g.dv, g.dv_sums, 1);
}

int64_t attention_backward_floats(int64_t head_dim, int64_t key_slots) {
  const int64_t half_units =
      (4 + 3 * key_slots) * kStrips * strips(head_dim) + 3 * kStrips * kStrips;  // of bf16
  return (half_units / 2 + 2 * kCellStrips + 1) * kUnit;
}
int64_t attention_sum_floats(int64_t head_dim) {
  return kStrips * strips(head_dim) * kUnit;
}

}  // namespace athanor::kernels::ATHANOR_ISA
