// Stands in for the library of matrix products.
#pragma once

#include "athanor/kernels/cuda/calls.h"

namespace athanor::emulated {

const char* product(CudaCalls::Stream* stream, const CudaProduct& problem);

}  // namespace athanor::emulated
