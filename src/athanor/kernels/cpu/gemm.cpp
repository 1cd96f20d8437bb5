#include <array>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor {
namespace {

constexpr int64_t kTile = 64;

struct Problem {
  int64_t m, n, k;
  int64_t a_row, a_col, b_row, b_col;  // strides of a (i, k) and b (k, j)
};

void product(Queue& queue, const char* kernel, Tensor& c, const Tensor& a, const Tensor& b,
             const Tensor* bias, const Problem& p, bool accumulate) {
  const RowType type = row_type(kernel, a);
  check(b.dtype() == a.dtype(), "{}: b is {}, expected {} as a", kernel, name_of(b.dtype()),
        name_of(a.dtype()));
  check(c.defined() && c.dim(-1) == p.n && c.numel() == p.m * p.n, "{}: c is {}, expected [{},{}]", kernel,
        c.shape(), p.m, p.n);
  check(c.dtype() == Dtype::f32 || (c.dtype() == a.dtype() && !accumulate), "{}: c is {}, expected {}",
        kernel, name_of(c.dtype()), accumulate ? "f32" : "f32 or the type of a");
  if (bias != nullptr) expect(kernel, "bias", *bias, {p.n}, a.dtype());
  const auto block = choose(queue, &RowTable::gemm, type, &GemmRows::block).block;
  const auto to_f32 = choose(queue, &RowTable::elementwise, type, &ElementwiseRows::to_f32).to_f32;
  const auto from_f32 =
      choose(queue, &RowTable::elementwise, row_type(kernel, c), &ElementwiseRows::from_f32).from_f32;
  const int64_t columns = num_blocks(p.n, kTile);
  queue.parallel_for(num_blocks(p.m, kTile) * columns, [&](int64_t index) {
    const int64_t i = index / columns * kTile, j = index % columns * kTile;
    const int64_t rows = std::min(kTile, p.m - i), width = std::min(kTile, p.n - j);
    const void* a_block = at(a, i * p.a_row);
    const void* b_block = at(b, j * p.b_col);
    if (accumulate) {
      block(c.data<float>() + i * p.n + j, p.n, a_block, p.a_row, p.a_col, b_block, p.b_row, p.b_col, rows,
            width, p.k, true);
      return;
    }
    std::array<float, kTile * kTile> tile;
    std::array<float, kTile> shift{};
    block(tile.data(), kTile, a_block, p.a_row, p.a_col, b_block, p.b_row, p.b_col, rows, width, p.k, false);
    if (bias != nullptr) to_f32(shift.data(), at(*bias, j), width);
    for (int64_t row = 0; row < rows; ++row) {
      float* values = tile.data() + row * kTile;
      for (int64_t column = 0; column < width; ++column) values[column] += shift[static_cast<size_t>(column)];
      from_f32(at(c, (i + row) * p.n + j), values, width);
    }
  });
}

void check_inner(const char* kernel, const Tensor& a, const Tensor& b, int64_t a_length, int64_t b_length) {
  check(a_length == b_length, "{}: a {} and b {} must agree in their summed dimension", kernel, a.shape(),
        b.shape());
}

void nt(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, const Tensor* bias) {
  check_inner("gemm.nt", a, b, a.dim(-1), b.dim(-1));
  const int64_t k = a.dim(-1);
  product(queue, "gemm.nt", c, a, b, bias, {a.rows(), b.dim(0), k, k, 1, 1, k}, false);
}

void nn(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b) {
  check_inner("gemm.nn", a, b, a.dim(-1), b.rows());
  const int64_t k = a.dim(-1), n = b.dim(-1);
  product(queue, "gemm.nn", c, a, b, nullptr, {a.rows(), n, k, k, 1, n, 1}, false);
}

void tn(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b) {
  check_inner("gemm.tn", a, b, a.rows(), b.rows());
  const int64_t m = a.dim(-1), n = b.dim(-1);
  product(queue, "gemm.tn", c, a, b, nullptr, {m, n, a.rows(), 1, m, n, 1}, true);
}

}  // namespace

const GemmKernels cpu_gemm{nt, nn, tn};

std::vector<KernelChoice> explain_gemm(Isa) {
  return {{"gemm f32", "ref", ""}, {"gemm bf16", "ref", ""}, {"gemm f16", "ref", ""}};
}

}  // namespace athanor
