// Puts places in the order of their ids: what occurs several times lies together, in the order in which it occurs.
//
//   sort_places(stream, ids_in_order, places, ids, count, workspace, workspace_bytes);
//
// ids, ids_in_order and places [count] i32 of the device. The workspace is what the vendor's radix sort asks for: 8 bytes an
// element and 4 MiB. Errors: a text, as all of kernels/cuda/calls.h. Source: CUB's stable radix sort.
#pragma once

#include "athanor/kernels/cuda/calls.h"

namespace athanor::kernels::cuda {

const char* sort_places(CudaCalls::Stream* stream, int32_t* ids_in_order, int32_t* places, const int32_t* ids,
                        int64_t count, void* workspace, uint64_t workspace_bytes);

}  // namespace athanor::kernels::cuda
