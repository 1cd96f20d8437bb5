// Stands in for cuBLASLt.
#pragma once

#include "athanor/kernels/cuda/calls.h"

namespace athanor::kernels::emulated {

const char* product(CudaCalls::Stream* stream, const CudaProduct& problem);

}  // namespace athanor::kernels::emulated
