// Embedding tables (kernels/embedding.h). Places are sorted by id, so that a block of threads adds the gradients of all
// occurrences of an id, in order: no atomics, and the same bits every time.
#include <climits>

#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"
#include "athanor/kernels/cuda/device/sorted_places.h"

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

// A block for each place of the sorted ids; those behind the first of their id leave at once.
template <typename T>
__global__ void backward(float* dtable, const T* dy, const int32_t* ids, const int32_t* places, int64_t count,
                         int64_t width, int64_t vocabulary, CudaFault* fault) {
  const int64_t first = blockIdx.x;
  const int32_t id = ids[first];
  if ((first > 0 && ids[first - 1] == id) || !names_row(id, places[first], vocabulary, fault)) return;
  int64_t last = first + 1;
  while (last < count && ids[last] == id) ++last;
  for (int64_t c = threadIdx.x; c < width; c += kThreads) {
    float sum = dtable[id * width + c];
    for (int64_t i = first; i < last; ++i) sum += to_float(dy[places[i] * width + c]);
    dtable[id * width + c] = sum;
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

__global__ void move_rows_of(float* sum, float* table, const int32_t* ids, const int32_t* places,
                             int64_t width, int64_t vocabulary, CudaFault* fault) {
  const int64_t first = blockIdx.x;
  const int32_t id = ids[first];
  if ((first > 0 && ids[first - 1] == id) || !names_row(id, places[first], vocabulary, fault)) return;
  for (int64_t c = threadIdx.x; c < width; c += kThreads) {
    sum[id * width + c] += table[id * width + c];
    table[id * width + c] = 0;
  }
}

// The ids in order, and their places, at the beginning of the workspace.
struct SortedIds {
  const int32_t *ids, *places;
  Error error;
};
SortedIds sort_ids(Stream stream, const int32_t* ids, int64_t count, void* workspace,
                   uint64_t workspace_bytes) {
  if (count > INT32_MAX) return {nullptr, nullptr, "more than 2^31 ids at once"};
  auto *sorted = static_cast<int32_t*>(workspace), *places = sorted + count;
  const uint64_t own_bytes = 2 * static_cast<uint64_t>(count) * sizeof(int32_t);
  return {sorted, places,
          sort_places(stream, sorted, places, ids, count, static_cast<std::byte*>(workspace) + own_bytes,
                      workspace_bytes - own_bytes)};
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
                         int64_t count, int64_t width, int64_t vocabulary, void* workspace,
                         uint64_t workspace_bytes) {
  if (count == 0) return nullptr;
  const SortedIds sorted = sort_ids(stream, ids, count, workspace, workspace_bytes);
  if (sorted.error != nullptr) return sorted.error;
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, backward<T>, count, kThreads, dtable, in<T>(dy), sorted.ids, sorted.places, count,
                  width, vocabulary, fault_of(stream));
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
                          int64_t width, int64_t vocabulary, void* workspace, uint64_t workspace_bytes) {
  if (count == 0) return nullptr;
  const SortedIds sorted = sort_ids(stream, ids, count, workspace, workspace_bytes);
  if (sorted.error != nullptr) return sorted.error;
  return launch(stream, move_rows_of, count, kThreads, sum, table, sorted.ids, sorted.places, width,
                vocabulary, fault_of(stream));
}

}  // namespace athanor::kernels::cuda
