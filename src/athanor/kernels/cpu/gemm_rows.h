// The candidate that takes every product: the row functions of the best instruction set on tiles of c.
#pragma once

#include "athanor/kernels/cpu/gemm_problem.h"

namespace athanor::kernels {

extern const GemmCandidate rows_gemm;

}  // namespace athanor::kernels
