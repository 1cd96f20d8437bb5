// Matrix products by cuBLASLt. The program's matrices are row-major, cuBLASLt's are column-major, so cuBLASLt computes
// the transposed product c^T = b^T . a^T on the same memory.
#pragma once

#include "athanor/kernels/cuda/device/stream.h"

namespace athanor::kernels::cuda {

const char* open_plans(ProductPlans** plans);
void close_plans(ProductPlans* plans);
const char* product(CudaCalls::Stream* stream, const CudaProduct& problem);
const char* plain_product(CudaCalls::Stream* stream, const CudaProduct& problem);  // plain_product.cu

}  // namespace athanor::kernels::cuda
