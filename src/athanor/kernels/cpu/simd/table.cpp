#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/attention.h"
#include "athanor/kernels/cpu/simd/cross_entropy.h"
#include "athanor/kernels/cpu/simd/dropout.h"
#include "athanor/kernels/cpu/simd/elementwise.h"
#include "athanor/kernels/cpu/simd/gelu.h"
#include "athanor/kernels/cpu/simd/gemm.h"
#include "athanor/kernels/cpu/simd/layer_norm.h"
#include "athanor/kernels/cpu/simd/optimizer.h"
#include "athanor/kernels/cpu/simd/rms_norm.h"
#include "athanor/kernels/cpu/simd/rope.h"
#include "athanor/kernels/cpu/simd/swiglu.h"
#include "athanor/kernels/cpu/simd/token_rows.h"

// Compiled once for each instruction set: ATHANOR_ISA gives the names avx2_rows and avx512_rows. Operations are headers
// of templates with internal linkage, all included here; with external linkage they would be weak symbols, shared
// between instruction sets. The table is constant-initialized, so no code of this object runs before the table is
// chosen.
#define ATHANOR_JOIN(a, b) a##b
#define ATHANOR_TABLE(isa) ATHANOR_JOIN(isa, _rows)
#define ATHANOR_STRING(text) #text
#define ATHANOR_NAME(isa) ATHANOR_STRING(isa)

namespace athanor::kernels {

using namespace ATHANOR_ISA;

constexpr RowTable ATHANOR_TABLE(ATHANOR_ISA) = {
    .name = ATHANOR_NAME(ATHANOR_ISA),
    .rms_norm = {rms_norm::rows<float>, rms_norm::rows<Bf16>, rms_norm::rows<F16>},
    .layer_norm = {layer_norm::rows<float>, layer_norm::rows<Bf16>, layer_norm::rows<F16>},
    .rope = {rope::rows<float>, rope::rows<Bf16>, rope::rows<F16>},
    .swiglu = {swiglu::rows<float>, swiglu::rows<Bf16>, swiglu::rows<F16>},
    .gelu = {gelu::rows<float>, gelu::rows<Bf16>, gelu::rows<F16>},
    .dropout = {dropout::rows<float>, dropout::rows<Bf16>, dropout::rows<F16>},
    .embedding = {embedding::rows<float>, embedding::rows<Bf16>, embedding::rows<F16>},
    .cross_entropy = {cross_entropy::rows<float>, cross_entropy::rows<Bf16>, cross_entropy::rows<F16>},
    .attention = {attention::rows<float>, attention::rows<Bf16>, attention::rows<F16>},
    .elementwise = {elementwise::rows<float>, elementwise::rows<Bf16>, elementwise::rows<F16>},
    .optimizer = {optimizer::rows<float>, optimizer::rows<Bf16>, optimizer::rows<F16>},
    .gemm = {gemm::rows<float>, gemm::rows<Bf16>, gemm::rows<F16>},
    .token_rows = {token_rows::rows<float>, token_rows::rows<Bf16>, token_rows::rows<F16>},
    .router = {},
    .f32 = elementwise::f32_rows,
};

}  // namespace athanor::kernels
