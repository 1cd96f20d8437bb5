// Pointers are to the first query (q, o, lse, ...) and the first key (k, v, ...) of one head; a range of
// queries is given by its indices alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::ref {
namespace {

constexpr int64_t kKeyTile = 64;

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

// Online softmax: `sum` and `total` hold what was seen relative to the largest score so far; a tile with a
// larger one scales them down first.
template <typename T>
void forward(void* o, float* lse, const void* q, const void* k, const void* v,
             const AttentionProblem& problem, int64_t q_first, int64_t q_count, float* scratch) {
  const auto [queries, keys, width, q_stride, kv_stride, scale] = problem;
  float* sum = scratch;             // [D]
  float* scores = scratch + width;  // [kKeyTile]
  for (int64_t t = q_first; t < q_first + q_count; ++t) {
    const int64_t visible = t + 1 + keys - queries;
    float largest = -std::numeric_limits<float>::infinity(), total = 0;
    std::fill(sum, sum + width, 0.0f);
    for (int64_t tile = 0; tile < visible; tile += kKeyTile) {
      const int64_t count = std::min(kKeyTile, visible - tile);
      for (int64_t j = 0; j < count; ++j)
        scores[j] = scale * dot(in<T>(q) + t * q_stride, in<T>(k) + (tile + j) * kv_stride, width);
      const float tile_largest = std::max(largest, *std::max_element(scores, scores + count));
      const float shrink = std::exp(largest - tile_largest);
      largest = tile_largest;
      total *= shrink;
      for (int64_t i = 0; i < width; ++i) sum[i] *= shrink;
      for (int64_t j = 0; j < count; ++j) {
        const float p = std::exp(scores[j] - largest);
        total += p;
        add_scaled(sum, p, in<T>(v) + (tile + j) * kv_stride, width);
      }
    }
    store(out<T>(o) + t * q_stride, sum, 1 / total, width);
    lse[t] = largest + std::log(total);
  }
}

template <typename T>
void backward(void* dq, void* dk, void* dv, const void* d_o, const void* o, const float* lse, const void* q,
              const void* k, const void* v, const AttentionProblem& problem, int64_t group, float* scratch) {
  const auto [queries, keys, width, q_stride, kv_stride, scale] = problem;
  float* dk_sum = scratch;                // [S,D]
  float* dv_sum = dk_sum + keys * width;  // [S,D]
  float* dq_sum = dv_sum + keys * width;  // [D]
  std::fill(dk_sum, dq_sum, 0.0f);
  for (int64_t head = 0; head < group; ++head)
    for (int64_t t = 0; t < queries; ++t) {
      const int64_t row = t * q_stride + head * width;
      const float delta = dot(in<T>(d_o) + row, in<T>(o) + row, width);
      std::fill(dq_sum, dq_sum + width, 0.0f);
      for (int64_t j = 0; j <= t; ++j) {
        const T* key = in<T>(k) + j * kv_stride;
        const float p = std::exp(scale * dot(in<T>(q) + row, key, width) - lse[head * queries + t]);
        const float ds = p * (dot(in<T>(d_o) + row, in<T>(v) + j * kv_stride, width) - delta);
        add_scaled(dv_sum + j * width, p, in<T>(d_o) + row, width);
        add_scaled(dk_sum + j * width, ds, in<T>(q) + row, width);
        add_scaled(dq_sum, ds, key, width);
      }
      store(out<T>(dq) + row, dq_sum, scale, width);
    }
  for (int64_t j = 0; j < keys; ++j) {
    store(out<T>(dk) + j * kv_stride, dk_sum + j * width, scale, width);
    store(out<T>(dv) + j * kv_stride, dv_sum + j * width, 1, width);
  }
}

int64_t scratch_floats(const AttentionProblem& problem, int64_t) {
  const int64_t for_forward = problem.head_dim + kKeyTile;
  const int64_t for_backward = (2 * problem.keys + 1) * problem.head_dim;
  return std::max(for_forward, for_backward);
}

}  // namespace

template <typename T>
AttentionRows attention() {
  return {forward<T>, backward<T>, scratch_floats};
}

template AttentionRows attention<float>();
template AttentionRows attention<Bf16>();
template AttentionRows attention<F16>();

}  // namespace athanor::ref
