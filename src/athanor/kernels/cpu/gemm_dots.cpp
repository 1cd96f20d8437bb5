#include "athanor/kernels/cpu/gemm_dots.h"

#include "athanor/kernels/cpu/dots_block.h"

namespace athanor::kernels {
namespace {

// Elements of b that make another thread worthwhile: waking one takes some microseconds.
constexpr int64_t kPartElements = 256 << 10;

void run(Queue& queue, Arena& arena, const GemmProblem& p, const GemmOperands& operands) {
  const Tensor packed = empty(arena, {dot_units(p.k), kDotUnit}, Dtype::bf16, Category::workspace);
  auto* const a = static_cast<uint16_t*>(packed.raw());
  queue.parallel_for(1, [&](int64_t) { amx::pack_dots(a, operands.a, p.a_row, p.m, p.k); });
  const int64_t part = std::max<int64_t>(1, kPartElements / p.k / kDotColumns) * kDotColumns;
  for_blocks(queue, p.n, part, [&](int64_t begin, int64_t length) {
    for (int64_t first = begin; first < begin + length; first += kDotColumns)
      amx::dots_block({.m = p.m,
                       .n = std::min(kDotColumns, begin + length - first),
                       .k = p.k,
                       .a = a,
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
  return refuse_isa(Isa::amx, isa);
}

}  // namespace

constinit const GemmCandidate amx_dots_gemm{"amx-dots", false, false, false, refuses, run};

}  // namespace athanor::kernels
