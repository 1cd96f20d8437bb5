// Attention forward with an online softmax, and the merging of two of them (kernels/attention.h).
#include "athanor/kernels/cuda/device/attention.cuh"
#include "athanor/kernels/cuda/device/kernels.h"

namespace athanor::kernels::cuda {
namespace {

static_assert(kThreads == kTile * kTile, "a thread for each pair of a tile");

// Shared memory: queries, keys (then values) and sums [kTile, D + 1]; scores [kTile, kTile]; of each query the largest
// score, the total of exp, and by how much a tile with a larger one shrinks what was summed before.
template <typename T>
__global__ void forward(T* o, float* lse, const T* q, const T* k, const T* v, CudaAttention p,
                        int64_t tiles) {
  const int64_t heads = p.batch * p.heads, width = p.head_dim + 1;
  const int64_t first =
      (tiles - 1 - blockIdx.x / heads) * kTile;  // the last see the most keys: long blocks first
  const HeadPart part = part_of(p, blockIdx.x % heads / p.heads, blockIdx.x % heads % p.heads);
  float* const queries = shared_memory<float>();
  float *const keys = queries + tile_floats(p.head_dim), *const sums = keys + tile_floats(p.head_dim);
  float* const scores = sums + tile_floats(p.head_dim);
  float *const largest = scores + kTile * kTile, *const total = largest + kTile,
               *const shrink = total + kTile;
  const int64_t row = threadIdx.x / kTile, column = threadIdx.x % kTile;
  const int64_t last = first + kTile < p.queries ? first + kTile : p.queries;

  load_tile(queries, q + part.query, part.q_stride, first, p.queries, p.head_dim);
  for (int64_t i = threadIdx.x; i < tile_floats(p.head_dim); i += kThreads) sums[i] = 0;
  if (threadIdx.x < kTile) {
    largest[threadIdx.x] = -INFINITY;
    total[threadIdx.x] = 0;
  }
  const int64_t end = end_key(p, last - 1);
  for (int64_t key = first_key(p, part, first) / kTile * kTile; key < end; key += kTile) {
    __syncthreads();
    load_tile(keys, k + part.key, part.kv_stride, key, p.keys, p.head_dim);
    __syncthreads();
    if (sees(p, part, first + row, key + column))
      scores[threadIdx.x] = p.scale * dot(queries + row * width, keys + column * width, p.head_dim);
    __syncthreads();
    load_tile(keys, v + part.key, part.kv_stride, key, p.keys, p.head_dim);
    if (threadIdx.x < kTile) {  // one thread for each query
      const int64_t t = first + threadIdx.x;
      float* const mine = scores + threadIdx.x * kTile;
      float now = largest[threadIdx.x];
      bool sees_any = false;
      for (int64_t j = 0; j < kTile; ++j)
        if (sees(p, part, t, key + j)) {
          now = Largest()(now, mine[j]);
          sees_any = true;
        }
      const float factor = sees_any ? expf(largest[threadIdx.x] - now) : 1.0f;
      float sum = total[threadIdx.x] * factor;
      for (int64_t j = 0; j < kTile; ++j)
        if (sees(p, part, t, key + j)) {
          mine[j] = expf(mine[j] - now);
          sum += mine[j];
        }
      largest[threadIdx.x] = now;
      shrink[threadIdx.x] = factor;
      total[threadIdx.x] = sum;
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < kTile * p.head_dim; i += kThreads) {
      const int64_t query = i / p.head_dim, at = i % p.head_dim;
      float sum = sums[query * width + at] * shrink[query];
      // Not even zero times a value that is not seen: it may be infinite.
      for (int64_t j = 0; j < kTile; ++j)
        if (sees(p, part, first + query, key + j)) sum += scores[query * kTile + j] * keys[j * width + at];
      sums[query * width + at] = sum;
    }
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < kTile * p.head_dim; i += kThreads) {
    const int64_t query = i / p.head_dim, at = i % p.head_dim, t = first + query;
    if (t >= p.queries) continue;
    const float factor = first_key(p, part, t) < end_key(p, t) ? 1 / total[query] : 0.0f;
    o[part.query + t * part.q_stride + at] = from_float<T>(sums[query * width + at] * factor);
  }
  if (threadIdx.x < kTile && first + threadIdx.x < p.queries)
    lse[part.row + first + threadIdx.x] = largest[threadIdx.x] + logf(total[threadIdx.x]);
}

__device__ inline float weight_of(float lse, float total) {
  return lse == -INFINITY ? 0.0f : expf(lse - total);
}

// A block of threads for each row of each head.
template <typename T>
__global__ void merge(float* sum, float* lse, const T* o, const float* o_lse, int64_t length, int64_t heads,
                      int64_t head_dim, int64_t first, int64_t count) {
  const int64_t head = blockIdx.x % heads, row = blockIdx.x / heads;
  const int64_t b = row / count, t = first + row % count;
  const int64_t at = (b * heads + head) * length + t, start = ((b * length + t) * heads + head) * head_dim;
  const float mine = lse[at], other = o_lse[at], top = Largest()(mine, other);
  const float total = top == -INFINITY ? top : top + logf(expf(mine - top) + expf(other - top));
  const float before = weight_of(mine, total), after = weight_of(other, total);
  for (int64_t i = threadIdx.x; i < head_dim; i += kThreads)
    sum[start + i] = before * sum[start + i] + after * to_float(o[start + i]);
  __syncthreads();  // all have read lse
  if (threadIdx.x == 0) lse[at] = total;
}

}  // namespace

Error attention_forward(Stream stream, Dtype type, void* o, float* lse, const void* q, const void* k,
                        const void* v, const CudaAttention& problem) {
  const int64_t tiles = num_blocks(problem.queries, kTile);
  const int64_t floats = 3 * tile_floats(problem.head_dim) + kTile * kTile + 3 * kTile;
  if (problem.head_dim > kLargestHead) return "attention's heads have 256 elements at most on this device";
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch_shared(stream, forward<T>, problem.batch * problem.heads * tiles, kThreads,
                         static_cast<uint64_t>(floats) * sizeof(float), out<T>(o), lse, in<T>(q), in<T>(k),
                         in<T>(v), problem, tiles);
  });
}

Error attention_merge(Stream stream, Dtype type, float* sum, float* lse, const void* o, const float* o_lse,
                      int64_t batch, int64_t length, int64_t heads, int64_t head_dim, int64_t first,
                      int64_t count) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, merge<T>, batch * count * heads, kThreads, sum, lse, in<T>(o), o_lse, length, heads,
                  head_dim, first, count);
  });
}

}  // namespace athanor::kernels::cuda
