#include "athanor/kernels/cpu/gemm_dots.h"

#include "athanor/kernels/cpu/dots_block.h"

namespace athanor {
namespace {

void run(Queue& queue, Arena&, const GemmProblem& p, const GemmOperands& operands) {
  for_blocks(queue, p.n, kDotColumns, [&](int64_t first, int64_t count) {
    amx::dots_block({.m = p.m,
                     .n = count,
                     .k = p.k,
                     .a = operands.a,
                     .a_row = p.a_row,
                     .b = offset(operands.b, first * p.b_col, p.in),
                     .b_row = p.b_col,
                     .bias = operands.bias == nullptr ? nullptr : offset(operands.bias, first, p.in),
                     .c = offset(operands.c, first, p.out),
                     .c_row = p.n,
                     .wide = p.out == kF32});
  });
}

std::string refuses(const GemmProblem& p, Isa isa) {
  if (p.in != kBf16) return "for bf16";
  if (p.m > kMostDotRows || p.accumulate || p.a_col != 1 || p.b_row != 1) return "for few rows times W^T";
  return refuse_isa(Isa::avx512_bf16, isa);
}

}  // namespace

constinit const GemmCandidate bf16_dots_gemm{"dots-bf16", refuses, run};

}  // namespace athanor
