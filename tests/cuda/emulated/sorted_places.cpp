// Stands in for the vendor's sort.
#include "athanor/kernels/cuda/device/sorted_places.h"

#include <algorithm>
#include <numeric>

#include "cuda/emulated/memory.h"
#include "cuda/emulated/threads.h"

namespace athanor::kernels::cuda {

const char* sort_places(CudaCalls::Stream* stream, int32_t* ids_in_order, int32_t* places, const int32_t* ids,
                        int64_t count, void* /*workspace*/, uint64_t /*workspace_bytes*/) {
  emulated::submit(stream, [=] {
    const emulated::DeviceAccess access;
    std::iota(places, places + count, 0);
    std::stable_sort(places, places + count, [=](int32_t a, int32_t b) { return ids[a] < ids[b]; });
    std::transform(places, places + count, ids_in_order, [=](int32_t place) { return ids[place]; });
  });
  return nullptr;
}

}  // namespace athanor::kernels::cuda
