// The candidate for a few rows of bf16 times W^T (dots_block.h): generating text a token at a time.
#pragma once

#include "athanor/kernels/cpu/gemm_problem.h"

namespace athanor::kernels {

extern constinit const GemmCandidate amx_dots_gemm;

}  // namespace athanor::kernels
