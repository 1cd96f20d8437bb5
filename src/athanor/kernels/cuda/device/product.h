// Products by cuBLASLt. All matrices of the program are row-major, the library's column-major: it is given the
// transposed product, c^T = b^T . a^T, of the same memory.
#pragma once

#include "athanor/kernels/cuda/device/stream.h"

namespace athanor::cuda {

const char* open_plans(struct athanor::ProductPlans** plans);
void close_plans(struct athanor::ProductPlans* plans);
const char* product(CudaCalls::Stream* stream, const CudaProduct& problem);

}  // namespace athanor::cuda
