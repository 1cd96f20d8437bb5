// bf16 products by oneDNN, in blocks that one thread computes: for processors that multiply bf16 without tile
// registers.
#pragma once

#include "athanor/kernels/cpu/gemm_problem.h"

namespace athanor {

extern const GemmCandidate onednn_gemm;

}  // namespace athanor
