// Embedding tables (kernels/embedding.h). If an id occurs several times, the block of threads of its first occurrence
// adds the gradients of all occurrences, in order: no atomics, and the same bits every time.
#include <climits>

#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

constexpr int32_t kNowhere = INT_MIN;  // kNoRow

// Whether the id names a row; one that is out of range is noted.
__device__ inline bool names_row(int32_t id, int64_t place, int64_t vocabulary, CudaFault* fault) {
  if (id >= 0 && id < vocabulary) return true;
  if (id != kNowhere && threadIdx.x == 0) note(fault, CudaFault::id, id, place, vocabulary);
  return false;
}

template <typename T>
__global__ void forward(T* y, const int32_t* ids, const T* table, const T* positions, int64_t length,
                        int64_t width, int64_t vocabulary, CudaFault* fault) {
  const int64_t n = blockIdx.x;
  const int32_t id = ids[n];
  const bool has_row = names_row(id, n, vocabulary, fault);
  for (int64_t c = threadIdx.x; c < width; c += kThreads) {
    float value = has_row ? to_float(table[id * width + c]) : 0.0f;
    if (positions != nullptr) value += to_float(positions[n % length * width + c]);
    y[n * width + c] = from_float<T>(value);
  }
}

__device__ inline bool is_first(const int32_t* ids, int64_t place) {
  int seen = 0;
  for (int64_t i = threadIdx.x; i < place; i += kThreads) seen |= ids[i] == ids[place] ? 1 : 0;
  return block_reduce(seen, Sum()) == 0;
}

// A block for each place; those behind the first of their id leave at once.
template <typename T>
__global__ void backward(float* dtable, const T* dy, const int32_t* ids, int64_t count, int64_t width,
                         int64_t vocabulary, CudaFault* fault) {
  __shared__ int32_t chunk[kThreads];
  const int64_t place = blockIdx.x;
  const int32_t id = ids[place];
  if (!names_row(id, place, vocabulary, fault) || !is_first(ids, place)) return;
  float* const row = dtable + id * width;
  for (int64_t first = place; first < count; first += kThreads) {
    const int64_t mine = first + threadIdx.x;
    chunk[threadIdx.x] = mine < count ? ids[mine] : kNowhere;
    __syncthreads();
    for (int64_t c = threadIdx.x; c < width; c += kThreads)
      for (int i = 0; i < kThreads; ++i)
        if (chunk[i] == id) row[c] += to_float(dy[(first + i) * width + c]);
    __syncthreads();
  }
}

template <typename T>
__global__ void backward_positions(float* dpositions, const T* dy, int64_t batch, int64_t n) {
  const int64_t i = element();
  if (i >= n) return;
  float sum = dpositions[i];
  for (int64_t b = 0; b < batch; ++b) sum += to_float(dy[b * n + i]);
  dpositions[i] = sum;
}

__global__ void move_first_rows(float* sum, float* table, const int32_t* ids, int64_t width,
                                int64_t vocabulary, CudaFault* fault) {
  const int64_t place = blockIdx.x;
  const int32_t id = ids[place];
  if (!names_row(id, place, vocabulary, fault) || !is_first(ids, place)) return;
  for (int64_t c = threadIdx.x; c < width; c += kThreads) {
    sum[id * width + c] += table[id * width + c];
    table[id * width + c] = 0;
  }
}

}  // namespace

Error embedding_forward(Stream stream, Dtype type, void* y, const int32_t* ids, const void* table,
                        const void* positions, int64_t count, int64_t length, int64_t width,
                        int64_t vocabulary) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, forward<T>, count, kThreads, out<T>(y), ids, in<T>(table), in<T>(positions), length,
                  width, vocabulary, fault_of(stream));
  });
}

Error embedding_backward(Stream stream, Dtype type, float* dtable, const void* dy, const int32_t* ids,
                         int64_t count, int64_t width, int64_t vocabulary) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, backward<T>, count, kThreads, dtable, in<T>(dy), ids, count, width, vocabulary,
                  fault_of(stream));
  });
}

Error embedding_backward_positions(Stream stream, Dtype type, float* dpositions, const void* dy,
                                   int64_t batch, int64_t length, int64_t width) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, backward_positions<T>, blocks_of(length * width), kThreads, dpositions, in<T>(dy),
                  batch, length * width);
  });
}

Error embedding_move_rows(Stream stream, float* sum, float* table, const int32_t* ids, int64_t count,
                          int64_t width, int64_t vocabulary) {
  return launch(stream, move_first_rows, count, kThreads, sum, table, ids, width, vocabulary,
                fault_of(stream));
}

}  // namespace athanor::kernels::cuda
