// Attention backward (kernels/attention.h): delta, then dq with a block of threads for each tile of queries, then dk
// and dv with a block for each tile of keys, which takes the heads that share the keys one by one. Each block
// recomputes the probabilities; no two blocks add to the same element.
#include "athanor/kernels/cuda/device/attention.cuh"
#include "athanor/kernels/cuda/device/kernels.h"

namespace athanor::kernels::cuda {
namespace {

// delta [B,H,T] of the part's queries: a block of threads for each.
template <typename T>
__global__ void output_products(float* delta, const T* d_o, const T* o, CudaAttention p) {
  const int64_t t = blockIdx.x % p.queries, head = blockIdx.x / p.queries;
  const HeadPart part = part_of(p, head / p.heads, head % p.heads);
  const int64_t start = part.query + t * part.q_stride;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < p.head_dim; i += kThreads)
    sum += to_float(d_o[start + i]) * to_float(o[start + i]);
  sum = block_reduce(sum, Sum());
  if (threadIdx.x == 0) delta[part.row + t] = sum;
}

// The probability of the pair (t, key) and the gradient of its score, from the rows of both; zero if masked.
struct PairGradient {
  float p, ds;
};
__device__ inline PairGradient pair_gradient(const CudaAttention& p, const HeadPart& part, int64_t t,
                                             int64_t key, const float* query_row, const float* key_row,
                                             const float* value_row, const float* d_o_row, const float* lse,
                                             const float* delta) {
  if (!sees(p, part, t, key)) return {0, 0};
  const float probability = expf(p.scale * dot(query_row, key_row, p.head_dim) - lse[part.row + t]);
  return {probability, probability * (dot(d_o_row, value_row, p.head_dim) - delta[part.row + t])};
}

// Shared memory: tiles of queries, d_o, keys, values and sums of dq; ds [kTile, kTile].
template <typename T>
__global__ void query_gradients(T* dq, const T* d_o, const float* lse, const float* delta, const T* q,
                                const T* k, const T* v, CudaAttention p, int64_t tiles) {
  const int64_t heads = p.batch * p.heads, width = p.head_dim + 1, floats = tile_floats(p.head_dim);
  const int64_t first = (tiles - 1 - blockIdx.x / heads) * kTile;
  const HeadPart part = part_of(p, blockIdx.x % heads / p.heads, blockIdx.x % heads % p.heads);
  float* const queries = shared_memory<float>();
  float *const d_os = queries + floats, *const keys = d_os + floats, *const values = keys + floats;
  float *const sums = values + floats, *const ds = sums + floats;
  const int64_t row = threadIdx.x / kTile, column = threadIdx.x % kTile;
  const int64_t last = first + kTile < p.queries ? first + kTile : p.queries;

  load_tile(queries, q + part.query, part.q_stride, first, p.queries, p.head_dim);
  load_tile(d_os, d_o + part.query, part.q_stride, first, p.queries, p.head_dim);
  for (int64_t i = threadIdx.x; i < floats; i += kThreads) sums[i] = 0;
  const int64_t end = end_key(p, last - 1);
  for (int64_t key = first_key(p, part, first) / kTile * kTile; key < end; key += kTile) {
    __syncthreads();
    load_tile(keys, k + part.key, part.kv_stride, key, p.keys, p.head_dim);
    load_tile(values, v + part.key, part.kv_stride, key, p.keys, p.head_dim);
    __syncthreads();
    ds[threadIdx.x] =
        pair_gradient(p, part, first + row, key + column, queries + row * width, keys + column * width,
                      values + column * width, d_os + row * width, lse, delta)
            .ds;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < kTile * p.head_dim; i += kThreads) {
      const int64_t query = i / p.head_dim, at = i % p.head_dim;
      for (int64_t j = 0; j < kTile; ++j)
        if (sees(p, part, first + query, key + j))
          sums[query * width + at] += ds[query * kTile + j] * keys[j * width + at];
    }
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < kTile * p.head_dim; i += kThreads) {
    const int64_t query = i / p.head_dim, at = i % p.head_dim, t = first + query;
    if (t < p.queries)
      dq[part.query + t * part.q_stride + at] = from_float<T>(p.scale * sums[query * width + at]);
  }
}

// Shared memory: tiles of keys, values, queries, d_o and sums of dk and dv; p and ds [kTile, kTile].
template <typename T>
__global__ void key_gradients(T* dk, T* dv, const T* d_o, const float* lse, const float* delta, const T* q,
                              const T* k, const T* v, CudaAttention p) {
  const int64_t heads = p.batch * p.kv_heads, group = p.heads / p.kv_heads, width = p.head_dim + 1;
  const int64_t floats = tile_floats(p.head_dim), first = blockIdx.x / heads * kTile;
  const int64_t batch = blockIdx.x % heads / p.kv_heads, kv_head = blockIdx.x % heads % p.kv_heads;
  float* const keys = shared_memory<float>();
  float *const values = keys + floats, *const queries = values + floats, *const d_os = queries + floats;
  float *const dk_sums = d_os + floats, *const dv_sums = dk_sums + floats;
  float *const ps = dv_sums + floats, *const ds = ps + kTile * kTile;
  const int64_t row = threadIdx.x / kTile, column = threadIdx.x % kTile;
  const HeadPart first_head = part_of(p, batch, kv_head * group);

  load_tile(keys, k + first_head.key, first_head.kv_stride, first, p.keys, p.head_dim);
  load_tile(values, v + first_head.key, first_head.kv_stride, first, p.keys, p.head_dim);
  for (int64_t i = threadIdx.x; i < floats; i += kThreads) dk_sums[i] = dv_sums[i] = 0;
  // Under a causal mask the queries before these keys do not see them.
  const int64_t before = p.causal ? first - (p.keys - p.queries) : 0;
  const int64_t start = before > 0 ? before / kTile * kTile : 0;
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const HeadPart part = part_of(p, batch, head);
    for (int64_t query = start; query < p.queries; query += kTile) {
      // first_keys rises: once a query begins behind these keys, so do all later ones.
      if (first_key(p, part, query) >= first + kTile) break;
      __syncthreads();
      load_tile(queries, q + part.query, part.q_stride, query, p.queries, p.head_dim);
      load_tile(d_os, d_o + part.query, part.q_stride, query, p.queries, p.head_dim);
      __syncthreads();
      const PairGradient pair =
          pair_gradient(p, part, query + row, first + column, queries + row * width, keys + column * width,
                        values + column * width, d_os + row * width, lse, delta);
      ps[threadIdx.x] = pair.p;
      ds[threadIdx.x] = pair.ds;
      __syncthreads();
      for (int64_t i = threadIdx.x; i < kTile * p.head_dim; i += kThreads) {
        const int64_t key = i / p.head_dim, at = i % p.head_dim;
        for (int64_t j = 0; j < kTile; ++j)
          if (sees(p, part, query + j, first + key)) {
            dv_sums[key * width + at] += ps[j * kTile + key] * d_os[j * width + at];
            dk_sums[key * width + at] += ds[j * kTile + key] * queries[j * width + at];
          }
      }
    }
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < kTile * p.head_dim; i += kThreads) {
    const int64_t key = i / p.head_dim, at = i % p.head_dim;
    if (first + key >= p.keys) continue;
    const int64_t to = first_head.key + (first + key) * first_head.kv_stride + at;
    dk[to] = from_float<T>(p.scale * dk_sums[key * width + at]);
    dv[to] = from_float<T>(dv_sums[key * width + at]);
  }
}

}  // namespace

Error attention_backward(Stream stream, Dtype type, void* dq, void* dk, void* dv, const void* d_o,
                         const void* o, const float* lse, float* delta, const void* q, const void* k,
                         const void* v, const CudaAttention& problem) {
  if (problem.head_dim > kLargestHead) return "attention's heads have 256 elements at most on this device";
  const int64_t tiles = num_blocks(problem.queries, kTile), key_tiles = num_blocks(problem.keys, kTile);
  const int64_t heads = problem.batch * problem.heads;
  const auto bytes = [&](int64_t tile_count, int64_t pairs) {
    return static_cast<uint64_t>(tile_count * tile_floats(problem.head_dim) + pairs * kTile * kTile) *
           sizeof(float);
  };
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    Error error = launch(stream, output_products<T>, heads * problem.queries, kThreads, delta, in<T>(d_o),
                         in<T>(o), problem);
    if (error == nullptr)
      error = launch_shared(stream, query_gradients<T>, heads * tiles, kThreads, bytes(5, 1), out<T>(dq),
                            in<T>(d_o), lse, delta, in<T>(q), in<T>(k), in<T>(v), problem, tiles);
    if (error == nullptr)
      error = launch_shared(stream, key_gradients<T>, problem.batch * problem.kv_heads * key_tiles, kThreads,
                            bytes(6, 2), out<T>(dk), out<T>(dv), in<T>(d_o), lse, delta, in<T>(q), in<T>(k),
                            in<T>(v), problem);
    return error;
  });
}

}  // namespace athanor::kernels::cuda
