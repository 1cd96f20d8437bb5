// The candidates that compute a product block by block, one thread a block, by instruction set: our own kernels.
#pragma once

#include "athanor/kernels/cpu/gemm_problem.h"

namespace athanor::kernels {

extern const GemmCandidate dots_gemm;               // a few rows times W^T, without packing
extern const GemmCandidate amx_gemm;                // bf16 on tile registers
extern const GemmCandidate avx512_bf16_gemm;        // bf16 by AVX-512's instructions for it
extern const GemmCandidate avx512_gemm, avx2_gemm;  // f32 arithmetic, all types

}  // namespace athanor::kernels
