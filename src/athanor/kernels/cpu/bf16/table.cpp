#include "athanor/kernels/cpu/bf16/attention.h"
#include "athanor/kernels/cpu/bf16/cross_entropy.h"
#include "athanor/kernels/cpu/bf16/gelu.h"
#include "athanor/kernels/cpu/bf16/swiglu.h"
#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/elementwise.h"
#include "athanor/kernels/cpu/simd/layer_norm.h"
#include "athanor/kernels/cpu/simd/rms_norm.h"
#include "athanor/kernels/cpu/simd/rope.h"

// Row functions for processors with bf16 products: attention, and operations on bf16 activations that use the
// processor's conversions. Casts and the optimizer, which make the bf16 copies of parameters, round as on all other
// instruction sets. (Matrix products are not row functions: see gemm.h.) Compiled once for each instruction set, as
// simd/table.cpp.
#define ATHANOR_JOIN(a, b) a##b
#define ATHANOR_TABLE(isa) ATHANOR_JOIN(isa, _rows)
#define ATHANOR_STRING(text) #text
#define ATHANOR_NAME(isa) ATHANOR_STRING(isa)

namespace athanor::kernels {

using namespace ATHANOR_ISA;

namespace {

constexpr RowTable table() {
  RowTable rows{};
  rows.name = ATHANOR_NAME(ATHANOR_ISA);
  rows.attention[kBf16] = {.forward = attention_forward,
                           .forward_floats = attention_forward_floats,
                           .delta = nullptr,
                           .backward = attention_backward,
                           .combine = attention_combine,
                           .backward_floats = attention_backward_floats,
                           .sum_floats = attention_sum_floats};
  rows.rms_norm[kBf16] = rms_norm::rows<Bf16>;
  rows.layer_norm[kBf16] = layer_norm::rows<Bf16>;
  rows.rope[kBf16] = rope::rows<Bf16>;
  rows.swiglu[kBf16] = {.forward = swiglu_bf16::forward, .backward = swiglu_bf16::backward};
  rows.gelu[kBf16].forward = gelu_bf16::forward;
  rows.gelu[kBf16].backward = gelu_bf16::backward;
  rows.cross_entropy[kBf16] = cross_entropy_bf16::rows;
  rows.elementwise[kBf16].add = elementwise::add<Bf16>;
  return rows;
}

}  // namespace

constexpr RowTable ATHANOR_TABLE(ATHANOR_ISA) = table();

}  // namespace athanor::kernels
