#include "athanor/kernels/cpu/gemm_rows.h"

#include <array>

namespace athanor::kernels {
namespace {

constexpr int64_t kTile = 64;

void run(Queue& queue, Arena&, const GemmProblem& p, const GemmOperands& operands) {
  const auto block = choose(queue, &RowTable::gemm, p.in, &GemmRows::block).block;
  const auto to_f32 = choose(queue, &RowTable::elementwise, p.in, &ElementwiseRows::to_f32).to_f32;
  const auto from_f32 = choose(queue, &RowTable::elementwise, p.out, &ElementwiseRows::from_f32).from_f32;
  const int64_t columns = num_blocks(p.n, kTile);
  queue.parallel_for(num_blocks(p.m, kTile) * columns, [&](int64_t index) {
    const int64_t i = index / columns * kTile, j = index % columns * kTile;
    const int64_t rows = std::min(kTile, p.m - i), width = std::min(kTile, p.n - j);
    const void* a = offset(operands.a, i * p.a_row, p.in);
    const void* b = offset(operands.b, j * p.b_col, p.in);
    if (p.accumulate) {
      block(static_cast<float*>(operands.c) + i * p.n + j, p.n, a, p.a_row, p.a_col, b, p.b_row, p.b_col,
            rows, width, p.k, true);
      return;
    }
    std::array<float, kTile * kTile> tile;
    std::array<float, kTile> shift{};
    block(tile.data(), kTile, a, p.a_row, p.a_col, b, p.b_row, p.b_col, rows, width, p.k, false);
    if (operands.bias != nullptr) to_f32(shift.data(), offset(operands.bias, j, p.in), width);
    for (int64_t row = 0; row < rows; ++row) {
      float* values = tile.data() + row * kTile;
      for (int64_t column = 0; column < width; ++column) values[column] += shift[static_cast<size_t>(column)];
      from_f32(offset(operands.c, (i + row) * p.n + j, p.out), values, width);
    }
  });
}

std::string refuses(const GemmProblem&, Isa) {
  return "";
}

}  // namespace

constinit const GemmCandidate rows_gemm{"rows", false, false, false, refuses, run};

}  // namespace athanor::kernels
