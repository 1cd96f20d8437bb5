#pragma once

#include "athanor/kernels/cuda/kernel_calls.h"

namespace athanor::kernels::cuda {

// The kernels of the plug-in, as the table that calls.cpp puts into CudaCalls.
extern const CudaKernelCalls kernel_calls;

}  // namespace athanor::kernels::cuda
