// Products by oneDNN, in blocks that one thread computes.
#pragma once

#include "athanor/kernels/cpu/gemm_problem.h"

namespace athanor {

extern const GemmCandidate onednn_gemm;

}  // namespace athanor
