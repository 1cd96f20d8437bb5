#include "athanor/kernels/cpu/amx/attention.h"
#include "athanor/kernels/cpu/rows.h"

// Row functions on tile registers. (Matrix products are not rows: gemm.cpp.)

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
  return rows;
}

}  // namespace

constexpr RowTable amx_rows = table();

}  // namespace athanor
