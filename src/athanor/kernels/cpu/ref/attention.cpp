// Pointers are to the first query (q, o, lse, ...) and the first key (k, v, ...) of one head; a range of
// queries is given by its indices alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include "athanor/kernels/cpu/attention_seen.h"
#include "athanor/kernels/cpu/attention_terms.h"
#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

constexpr int64_t kKeyTile = kSeenBlock;

// body(s) for the keys of [first, end) that query t sees, where neither crosses a multiple of 64.
template <typename Body>
void for_seen_keys(const AttentionProblem& problem, int64_t t, int64_t first, int64_t end, Body body) {
  uint64_t seen = 0;
  const Seen some = seen_rows(problem, {.query = t, .queries = 1, .key = first, .keys = end - first}, &seen);
  for (int64_t s = first; some != Seen::none && s < end; ++s)
    if (some == Seen::all || (seen >> (s - first)) % 2 == 1) body(s);
}

template <typename T>
float dot(const T* a, const T* b, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += to_float(a[i]) * to_float(b[i]);
  return sum;
}

template <typename T>
void add_scaled(float* sum, float factor, const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += factor * to_float(x[i]);
}

template <typename T>
void store(T* y, const float* x, float factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = from_float<T>(factor * x[i]);
}

// The score of x = scale * q.k, and its derivative by x.
struct Score {
  float value, slope;
};
Score score_of(const AttentionTerms& terms, int64_t t, int64_t s, float x) {
  Score score{x, 1};
  if (terms.softcap > 0) {
    const float capped = std::tanh(x / terms.softcap);
    score = {terms.softcap * capped, 1 - capped * capped};
  }
  float bias = 0;
  bias_row(terms, {t, s, 1}, &bias);
  if (terms.bias != nullptr) score.value += bias;
  return score;
}
float keep_factor(const AttentionTerms& terms, int64_t t, int64_t s) {
  float factor = 1;
  keep_row(terms, {t, s, 1}, &factor);
  return factor;
}

// Online softmax: `sum` and `total` hold what was seen relative to the largest score so far; a tile with a
// larger one scales them down first.
template <typename T>
void forward(void* o, float* lse, const void* q, const void* k, const void* v,
             const AttentionProblem& problem, int64_t q_first, int64_t q_count, float* scratch) {
  const int64_t width = problem.value_dim, head_dim = problem.head_dim;
  const float scale = problem.scale;
  float* sum = scratch;             // [E]
  float* scores = scratch + width;  // [kKeyTile]
  for (int64_t t = q_first; t < q_first + q_count; ++t) {
    float largest = -std::numeric_limits<float>::infinity(), total = 0;
    std::fill(sum, sum + width, 0.0f);
    for (int64_t block = 0; (block = next_seen_block(problem, t, 1, block)) >= 0; ++block) {
      const int64_t tile = block * kKeyTile, end = std::min(problem.keys, tile + kKeyTile);
      float tile_largest = largest;
      for_seen_keys(problem, t, tile, end, [&](int64_t s) {
        const float x =
            scale * dot(in<T>(q) + t * problem.q_stride, in<T>(k) + s * problem.kv_stride, head_dim);
        scores[s - tile] = score_of(problem.terms, t, s, x).value;
        tile_largest = std::max(tile_largest, scores[s - tile]);
      });
      const float shrink = largest < tile_largest ? std::exp(largest - tile_largest) : 1;
      largest = tile_largest;
      total *= shrink;
      for (int64_t i = 0; i < width; ++i) sum[i] *= shrink;
      for_seen_keys(problem, t, tile, end, [&](int64_t s) {
        const float p = std::exp(scores[s - tile] - largest);
        total += p;
        add_scaled(sum, p * keep_factor(problem.terms, t, s), in<T>(v) + s * problem.v_stride, width);
      });
    }
    store(out<T>(o) + t * problem.o_stride, sum, total > 0 ? 1 / total : 0, width);
    lse[t] = largest + std::log(total);
  }
}

template <typename T>
void row_deltas(float* delta, int64_t stride, const void* d_o, const void* o, int64_t heads,
                int64_t head_dim) {
  for (int64_t head = 0; head < heads; ++head)
    delta[head * stride] = dot(in<T>(d_o) + head * head_dim, in<T>(o) + head * head_dim, head_dim);
}

// Sums are [rows of a block, D or E]; those of dq and dk are not yet multiplied by the scale.
template <typename T>
void backward(const AttentionGradients& g, const AttentionProblem& problem, const AttentionPair& pair,
              float*) {
  const int64_t width = problem.head_dim, value_dim = problem.value_dim;
  const int64_t q_stride = problem.q_stride, kv_stride = problem.kv_stride, v_stride = problem.v_stride;
  const float scale = problem.scale;
  const AttentionTerms& terms = problem.terms;
  const int64_t first_query = pair.query * kAttentionBlock, first_key = pair.key * kAttentionBlock;
  const int64_t end_query = std::min(problem.queries, first_query + kAttentionBlock);
  const int64_t end_key = std::min(problem.keys, first_key + kAttentionBlock);
  const int64_t query_floats = (end_query - first_query) * width, keys = end_key - first_key;
  if (pair.starts_dq) std::fill_n(g.dq_sums, query_floats, 0.0f);
  if (pair.starts_dkv) std::fill_n(g.dk_sums, keys * width, 0.0f);
  if (pair.starts_dkv) std::fill_n(g.dv_sums, keys * value_dim, 0.0f);
  for (int64_t t = first_query; t < end_query; ++t) {
    const T *query = in<T>(g.q) + t * q_stride, *d_out = in<T>(g.d_o) + t * problem.o_stride;
    float* dq_sum = g.dq_sums + (t - first_query) * width;
    const auto add_key = [&](int64_t s) {
      const T* key = in<T>(g.k) + s * kv_stride;
      const Score score = score_of(terms, t, s, scale * dot(query, key, width));
      const float p = std::exp(score.value - g.lse[t]), factor = keep_factor(terms, t, s);
      const float d_score = p * (factor * dot(d_out, in<T>(g.v) + s * v_stride, value_dim) - g.delta[t]);
      if (g.bias_sums != nullptr) add_bias_row(terms, {t, s, 1}, &d_score, g.bias_sums);
      const float ds = d_score * score.slope;
      const int64_t row = (s - first_key) * width;
      add_scaled(g.dv_sums + (s - first_key) * value_dim, p * factor, d_out, value_dim);
      add_scaled(g.dk_sums + row, ds, query, width);
      add_scaled(dq_sum, ds, key, width);
    };
    for (int64_t tile = first_key; tile < end_key; tile += kKeyTile)
      for_seen_keys(problem, t, tile, std::min(end_key, tile + kKeyTile), add_key);
    if (pair.ends_dq) store(out<T>(g.dq) + t * q_stride, dq_sum, scale, width);
  }
  for (int64_t s = first_key; pair.ends_dkv && s < end_key; ++s) {
    const int64_t row = (s - first_key) * width;
    store(out<T>(g.dk) + s * kv_stride, g.dk_sums + row, scale, width);
    store(out<T>(g.dv) + s * v_stride, g.dv_sums + (s - first_key) * value_dim, 1, value_dim);
  }
}

// to[i] = factor * the sum of sums[head * stride + i] over the heads.
template <typename T>
void store_sum(T* to, const float* sums, float factor, int64_t width, int64_t group, int64_t stride) {
  for (int64_t i = 0; i < width; ++i) {
    float sum = 0;
    for (int64_t head = 0; head < group; ++head) sum += sums[head * stride + i];
    to[i] = from_float<T>(factor * sum);
  }
}

template <typename T>
void combine(const AttentionGradients& g, const AttentionProblem& problem, int64_t key, int64_t group,
             int64_t stride) {
  const int64_t first = key * kAttentionBlock, width = problem.head_dim, value_dim = problem.value_dim;
  for (int64_t s = first; s < std::min(problem.keys, first + kAttentionBlock); ++s) {
    store_sum(out<T>(g.dk) + s * problem.kv_stride, g.dk_sums + (s - first) * width, problem.scale, width,
              group, stride);
    store_sum(out<T>(g.dv) + s * problem.v_stride, g.dv_sums + (s - first) * value_dim, 1, value_dim, group,
              stride);
  }
}

int64_t forward_floats(int64_t head_dim, int64_t) {
  return head_dim + kKeyTile;
}
int64_t backward_floats(int64_t, int64_t) {
  return 0;
}
int64_t sum_floats(int64_t head_dim) {
  return kAttentionBlock * head_dim;
}

}  // namespace

template <typename T>
AttentionRows attention() {
  return {forward<T>, forward_floats,  row_deltas<T>, backward<T>,
          combine<T>, backward_floats, sum_floats,    true};
}

template AttentionRows attention<float>();
template AttentionRows attention<Bf16>();
template AttentionRows attention<F16>();

}  // namespace athanor::kernels::ref
