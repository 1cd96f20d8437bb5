// A few rows of bf16 times W^T (dots_block.h), as a candidate: generating text a token at a time.
#pragma once

#include "athanor/kernels/cpu/gemm_problem.h"

namespace athanor {

extern constinit const GemmCandidate amx_dots_gemm;

}  // namespace athanor
