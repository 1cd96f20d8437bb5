#pragma once

#include "athanor/kernels/cuda/kernel_calls.h"

namespace athanor::cuda {

extern const CudaKernelCalls kernel_calls;

}  // namespace athanor::cuda
