// The candidates that compute a product block by block, each block by one thread in its own scratch memory:
// our own kernels, by instruction set.
#pragma once

#include "athanor/kernels/cpu/gemm_problem.h"

namespace athanor {

extern const GemmCandidate amx_gemm;

}  // namespace athanor
