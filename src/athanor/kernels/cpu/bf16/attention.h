// Attention in bf16 (FlashAttention; Dao et al., 2022): a stream of products of 32 x 32 units, interleaved with the
// softmax, which is f32 on vectors.
//
// Scores are stored transposed, [keys, queries]: the softmax of 16 queries takes one lane a query and needs no sums
// across lanes, and the products that follow take the probabilities without repacking:
//
//   s^T = k q^T,  dp^T = v do^T              a = rows of k and v;   b = q, do transposed once per block
//   dv += p^T do,  dk += ds^T q              a = rows of p^T, ds^T; b = do, q in pairs of rows
//   o^T += v^T p^T,  dq^T += k^T ds^T        a = v, k transposed;   b = p^T, ds^T in pairs of rows
//
// Probabilities and ds are rounded to bf16 for the products; sums are f32. Head dimensions are padded to multiples of
// 32. Pairs of rows are interleaved within 128-bit lanes, which is cheaper than keeping their order. So rows and
// columns of o^T and dq^T are in the order of turned_row() (pack.h) until they are written.
#pragma once

#include "athanor/kernels/cpu/attention_seen.h"
#ifdef __AMX_BF16__
#include "athanor/kernels/cpu/amx/tile_products.h"
#else
#include "athanor/kernels/cpu/avx512_bf16/tile_products.h"
#endif

namespace athanor::kernels::ATHANOR_ISA {

void attention_forward(void* o, float* lse, const void* q, const void* k, const void* v,
                       const AttentionProblem& problem, int64_t q_first, int64_t q_count, float* scratch);
int64_t attention_forward_floats(int64_t head_dim, int64_t q_count);
void attention_backward(const AttentionGradients& gradients, const AttentionProblem& problem,
                        const AttentionPair& pair, float* scratch);
void attention_combine(const AttentionGradients& gradients, const AttentionProblem& problem, int64_t key,
                       int64_t group, int64_t stride);
int64_t attention_backward_floats(int64_t head_dim, int64_t key_slots);
int64_t attention_sum_floats(int64_t head_dim);

namespace {

inline constexpr int64_t kStrips = kAttentionBlock / kSide;  // of 32 positions
inline constexpr float kLog2E = 0x1.715476p0f;

inline int64_t strips(int64_t n) {
  return (n + kSide - 1) / kSide;
}

// Allocates parts of the scratch one after the other, on boundaries of 64 bytes.
struct Scratch {
  float* next;
  float* floats(int64_t units) {
    float* part = next;
    next += units * kUnit;
    return part;
  }
  float* vectors(int64_t n) {
    float* part = next;
    next += n * 16;
    return part;
  }
  uint16_t* elements(int64_t units) { return reinterpret_cast<uint16_t*>(floats(units / 2 + units % 2)); }
};

// 2^x. Coefficients are minimax fits of 2^f on [0, 1): good to 1.4e-7 and exact where x is whole (Lawson), or good to
// 2.7e-6 (Remez).
inline constexpr float kExp2Fine[] = {0x1.e9691p-10f, 0x1.277c1cp-7f, 0x1.c91c1p-5f,
                                      0x1.ebdb6ap-3f, 0x1.62e4bap-1f, 1.f};
inline constexpr float kExp2[] = {0x1.bb7cd4p-7f, 0x1.aa13fp-5f, 0x1.ee798ap-3f, 0x1.62d166p-1f,
                                  0x1.00002cp0f};
template <size_t kTerms>
[[gnu::always_inline]] inline __m512 exp2(__m512 x, __mmask16 mask, const float (&terms)[kTerms]) {
  const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 sum = _mm512_set1_ps(terms[0]);
  for (size_t i = 1; i < kTerms; ++i) sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(terms[i]));
  return _mm512_maskz_scalef_ps(mask, sum, x);
}

[[gnu::always_inline]] inline __m512i as_bf16(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

// Two rows of 32 queries as the row of pairs of two tiles.
[[gnu::always_inline]] inline void store_pairs(uint16_t* unit, int64_t pair, __m512i even, __m512i odd) {
  _mm512_store_si512(unit + pair * kSide, _mm512_unpacklo_epi16(even, odd));
  _mm512_store_si512(unit + kUnit / 2 + pair * kSide, _mm512_unpackhi_epi16(even, odd));
}

// Which of the queries [query, query + 32) see a key, by the causal mask.
inline __mmask32 seeing(int64_t query, int64_t key) {
  const int64_t hidden = key - query;
  return hidden <= 0 ? ~__mmask32{0} : hidden >= 32 ? 0 : ~__mmask32{0} << hidden;
}

// The same of any mask: bit i of seen[j] says whether query + i sees key + j. Of some queries of a strip of 32 and of the
// keys of whole blocks of 64, from `key` on; past the end of the keys: none.
inline Seen look(const AttentionProblem& problem, int64_t query, int64_t queries, int64_t key, int64_t keys,
                 __mmask32* seen) {
  Seen all = Seen::all;
  bool any = false;
  for (int64_t first = 0; first < keys; first += kSeenBlock) {
    uint64_t columns[kSeenBlock];
    const int64_t count = smaller(kSeenBlock, smaller(keys, problem.keys - key) - first);
    const Seen block =
        count <= 0 ? Seen::none : seen_columns(problem, {query, queries, key + first, count}, columns);
    any = any || block != Seen::none;
    if (block != Seen::all || count < smaller(kSeenBlock, keys - first)) all = Seen::some;
    for (int64_t j = 0; j < smaller(kSeenBlock, keys - first); ++j)
      seen[first + j] = j >= count || block == Seen::none ? 0
                        : block == Seen::all              ? ~__mmask32{0}
                                                          : static_cast<__mmask32>(columns[j]);
  }
  return any ? all : Seen::none;
}

// rows[i][j] = factors[i] * transposed[j][column of i]: 32 queries, `width` values of D in units that follow
// each other.
inline void write_queries(uint16_t* rows, int64_t stride, const float* transposed, int64_t count,
                          int64_t width, const float* factors) {
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  for (int64_t d = 0; d < width; d += kSide, transposed += kUnit)
    for (int64_t column = 0; column < kSide; column += 16) {
      __m512i low[16], high[16];
      for (int i = 0; i < 16; ++i) {
        low[i] = _mm512_load_si512(transposed + i * kSide + column);
        high[i] = _mm512_load_si512(transposed + (16 + i) * kSide + column);
      }
      transpose(low);
      transpose(high);
      for (int i = 0; i < 16; ++i) {
        const int64_t query = turned_row(column + i);
        if (query >= count) continue;
        const __m512 factor = _mm512_set1_ps(factors[query]);
        const __m512i row =
            as_bf16(reinterpret_cast<__m512>(low[i]) * factor, reinterpret_cast<__m512>(high[i]) * factor);
        _mm512_mask_storeu_epi16(rows + query * stride + d, first32(width - d),
                                 _mm512_permutexvar_epi64(order, row));
      }
    }
}

// rows = factor * units of 32 keys and 32 values of D that follow each other.
inline void write_keys(uint16_t* rows, int64_t stride, const float* units, int64_t count, int64_t width,
                       float factor) {
  const __m512 factors = _mm512_set1_ps(factor);
  for (int64_t d = 0; d < width; d += kSide, units += kUnit)
    for (int64_t key = 0; key < smaller(count, kSide); ++key) {
      const float* from = units + key * kSide;
      _mm512_mask_storeu_epi16(rows + key * stride + d, first32(width - d),
                               as_bf16(_mm512_load_ps(from) * factors, _mm512_load_ps(from + 16) * factors));
    }
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
