// The candidate that computes f32 products on bf16 tile registers (split_block.h).
#pragma once

#include "athanor/kernels/cpu/gemm_problem.h"

namespace athanor::kernels {

extern constinit const GemmCandidate split_gemm;

}  // namespace athanor::kernels
