#include "athanor/kernels/cuda/device/sorted_places.h"

#include <cub/device/device_radix_sort.cuh>

#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

__global__ void count_up(int32_t* places, int64_t count) {
  const int64_t i = element();
  if (i < count) places[i] = static_cast<int32_t>(i);
}

}  // namespace

const char* sort_places(CudaCalls::Stream* stream, int32_t* ids_in_order, int32_t* places, const int32_t* ids,
                        int64_t count, void* workspace, uint64_t workspace_bytes) {
  auto* unsorted = static_cast<int32_t*>(workspace);
  const uint64_t own_bytes = (static_cast<uint64_t>(count) * sizeof(int32_t) + 255) / 256 * 256;
  if (Error error = launch(stream, count_up, blocks_of(count), kThreads, unsorted, count)) return error;
  size_t needed = 0;
  if (Error error = error_text(cub::DeviceRadixSort::SortPairs(nullptr, needed, ids, ids_in_order, unsorted,
                                                               places, count, 0, 32, stream->stream)))
    return error;
  if (own_bytes + needed > workspace_bytes) return "the workspace of a sort is too small";
  return error_text(cub::DeviceRadixSort::SortPairs(static_cast<std::byte*>(workspace) + own_bytes, needed,
                                                    ids, ids_in_order, unsorted, places, count, 0, 32,
                                                    stream->stream));
}

}  // namespace athanor::kernels::cuda
