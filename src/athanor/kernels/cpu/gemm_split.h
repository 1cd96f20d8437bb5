// f32 products on bf16 tile registers (split_block.h), as a candidate.
#pragma once

#include "athanor/kernels/cpu/gemm_problem.h"

namespace athanor {

extern constinit const GemmCandidate split_gemm;

}  // namespace athanor
