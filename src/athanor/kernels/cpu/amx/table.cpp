#include "athanor/kernels/cpu/amx/attention.h"
#include "athanor/kernels/cpu/amx/gelu.h"
#include "athanor/kernels/cpu/amx/swiglu.h"
#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/cross_entropy.h"
#include "athanor/kernels/cpu/simd/elementwise.h"
#include "athanor/kernels/cpu/simd/layer_norm.h"
#include "athanor/kernels/cpu/simd/rms_norm.h"
#include "athanor/kernels/cpu/simd/rope.h"

// Row functions on tile registers, and those of bf16 activations with the conversions that such processors have. Casts
// and the optimizer, which make the bf16 copies of parameters, round as everywhere.
// (Matrix products are not rows: gemm.cpp, split.cpp.)

namespace athanor {
namespace {

constexpr RowTable table() {
  RowTable rows{};
  rows.name = "amx";
  rows.attention[kBf16] = {.forward = amx::attention_forward,
                           .forward_floats = amx::attention_forward_floats,
                           .delta = nullptr,
                           .backward = amx::attention_backward,
                           .combine = amx::attention_combine,
                           .backward_floats = amx::attention_backward_floats,
                           .sum_floats = amx::attention_sum_floats};
  rows.rms_norm[kBf16] = amx::rms_norm::rows<amx::Bf16>;
  rows.layer_norm[kBf16] = amx::layer_norm::rows<amx::Bf16>;
  rows.rope[kBf16] = amx::rope::rows<amx::Bf16>;
  rows.swiglu[kBf16] = {.forward = amx::swiglu_bf16::forward, .backward = amx::swiglu_bf16::backward};
  rows.gelu[kBf16] = {.forward = amx::gelu_bf16::forward, .backward = amx::gelu_bf16::backward};
  rows.cross_entropy[kBf16] = amx::cross_entropy::rows<amx::Bf16>;
  rows.elementwise[kBf16].add = amx::elementwise::add<amx::Bf16>;
  return rows;
}

}  // namespace

constexpr RowTable amx_rows = table();

}  // namespace athanor
