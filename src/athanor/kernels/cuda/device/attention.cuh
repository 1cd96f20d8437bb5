// What the forward and the backward pass of attention share: tiles of rows in shared memory, and the mask.
//
// A block of threads works on one tile of queries (or keys) of one head and loops over the tiles of keys (or queries),
// so global memory beside the results is one f32 a query. A tile is kTile rows of f32, padded by one column so that
// threads that read the same column of neighbouring rows access different banks.
#pragma once

#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {

constexpr int64_t kTile = 16;
constexpr int64_t kLargestHead =
    256;  // six tiles of the backward pass fit the shared memory of every device from compute 8.0 on

struct HeadPart {
  int64_t batch, head;
  int64_t query, key;  // index in q and in k of the first element of the part's first row of this head
  int64_t row;         // index in lse of that row
  int64_t q_stride, kv_stride;
  const int32_t* first_keys;  // of the part's queries, or null
};

__device__ inline HeadPart part_of(const CudaAttention& p, int64_t batch, int64_t head) {
  const int64_t kv_head = head / (p.heads / p.kv_heads);
  return {batch,
          head,
          ((batch * p.all_queries + p.first_query) * p.heads + head) * p.head_dim,
          ((batch * p.all_keys + p.first_key) * p.kv_heads + kv_head) * p.head_dim,
          (batch * p.heads + head) * p.all_queries + p.first_query,
          p.heads * p.head_dim,
          p.kv_heads * p.head_dim,
          p.first_keys == nullptr ? nullptr : p.first_keys + batch * p.all_queries + p.first_query};
}

// Query t of the part sees the keys [first_key, end_key) of the part.
__device__ inline int64_t first_key(const CudaAttention& p, const HeadPart& part, int64_t t) {
  if (part.first_keys == nullptr) return 0;
  const int64_t first = part.first_keys[t] - p.first_key;
  return first < 0 ? 0 : first < p.keys ? first : p.keys;
}
__device__ inline int64_t end_key(const CudaAttention& p, int64_t t) {
  if (!p.causal) return p.keys;
  const int64_t end = t + 1 + p.keys - p.queries;
  return end < p.keys ? end : p.keys;
}
__device__ inline bool sees(const CudaAttention& p, const HeadPart& part, int64_t t, int64_t key) {
  return t < p.queries && key >= first_key(p, part, t) && key < end_key(p, t);
}

// Loads the rows [first, first + kTile) of one head; rows from `rows` on are zero.
template <typename T>
__device__ void load_tile(float* tile, const T* x, int64_t stride, int64_t first, int64_t rows,
                          int64_t head_dim) {
  for (int64_t i = threadIdx.x; i < kTile * head_dim; i += kThreads) {
    const int64_t row = i / head_dim, column = i % head_dim;
    tile[row * (head_dim + 1) + column] =
        first + row < rows ? to_float(x[(first + row) * stride + column]) : 0.0f;
  }
}

__device__ inline float dot(const float* a, const float* b, int64_t head_dim) {
  float sum = 0;
  for (int64_t i = 0; i < head_dim; ++i) sum += a[i] * b[i];
  return sum;
}

__host__ __device__ inline int64_t tile_floats(int64_t head_dim) {
  return kTile * (head_dim + 1);
}

}  // namespace athanor::kernels::cuda
