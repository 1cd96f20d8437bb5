#include <array>
#include <cstring>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

static_assert(kBlockElements % kNormBlock == 0);

void add(Queue& queue, Tensor& y, const Tensor& a, const Tensor& b) {
  const char* kernel = "add";
  const ElementwiseRows& rows =
      choose(queue, &RowTable::elementwise, row_type(kernel, a), &ElementwiseRows::add);
  expect(kernel, "y", y, a.shape(), a.dtype());
  expect(kernel, "b", b, a.shape(), a.dtype());
  const Meter::Call call = metered(queue, kernel, flops_of(a), bytes_of(y, a, b));
  for_blocks(queue, a.numel(), kBlockElements, [&](int64_t first, int64_t count) {
    rows.add(at(y, first), at(a, first), at(b, first), count);
  });
}

void accumulate(Queue& queue, Tensor& y, const Tensor& x) {
  expect("accumulate", "x", x, x.shape(), Dtype::f32);
  expect("accumulate", "y", y, x.shape(), Dtype::f32);
  const auto row = choose_f32(queue, &F32Rows::accumulate);
  const Meter::Call call = metered(queue, "accumulate", flops_of(x), bytes_of(y, y, x));
  for_blocks(queue, x.numel(), kBlockElements, [&](int64_t first, int64_t count) {
    row(y.data<float>() + first, x.data<float>() + first, count);
  });
}

void scale(Queue& queue, Tensor& x, float factor) {
  expect("scale", "x", x, x.shape(), Dtype::f32);
  const auto row = choose_f32(queue, &F32Rows::scale);
  const Meter::Call call = metered(queue, "scale", flops_of(x), bytes_of(x, x));
  for_blocks(queue, x.numel(), kBlockElements,
             [&](int64_t first, int64_t count) { row(x.data<float>() + first, factor, count); });
}

void column_sum(Queue& queue, Tensor& out, const Tensor& x) {
  const char* kernel = "column_sum";
  const ElementwiseRows& rows =
      choose(queue, &RowTable::elementwise, row_type(kernel, x), &ElementwiseRows::column_sum);
  const int64_t width = x.dim(-1);
  expect(kernel, "out", out, {width}, Dtype::f32);
  const Meter::Call call = metered(queue, kernel, flops_of(x), bytes_of(x));
  Tensor partials = empty_partials(x.arena(), x.rows(), width);
  for_blocks(queue, x.rows(), kReduceRows, [&](int64_t first, int64_t count) {
    float* partial = partials.data<float>() + first / kReduceRows * width;
    std::memset(partial, 0, static_cast<size_t>(width) * sizeof(float));
    rows.column_sum(partial, at(x, first * width), count, width);
  });
  add_partials(queue, out, partials);
}

void cast(Queue& queue, Tensor& y, const Tensor& x) {
  const char* kernel = "cast";
  const RowType from = row_type(kernel, x), to = row_type(kernel, y);
  expect(kernel, "y", y, x.shape(), y.dtype());
  const auto to_f32 = choose(queue, &RowTable::elementwise, from, &ElementwiseRows::to_f32).to_f32;
  const auto from_f32 = choose(queue, &RowTable::elementwise, to, &ElementwiseRows::from_f32).from_f32;
  const Meter::Call call = metered(queue, kernel, 0.0, bytes_of(y, x));
  for_blocks(queue, x.numel(), kBlockElements, [&](int64_t first, int64_t count) {
    if (to == kF32) return to_f32(y.data<float>() + first, at(x, first), count);
    if (from == kF32) return from_f32(at(y, first), x.data<float>() + first, count);
    std::array<float, 1024> buffer;
    constexpr auto kPart = static_cast<int64_t>(buffer.size());
    for (int64_t done = 0; done < count; done += kPart) {
      const int64_t part = std::min(kPart, count - done);
      to_f32(buffer.data(), at(x, first + done), part);
      from_f32(at(y, first + done), buffer.data(), part);
    }
  });
}

// Adds the values in the fixed binary tree, in place: neighbours first.
double add_in_tree(std::span<double> values) {
  for (size_t n = values.size(); n > 1; n = (n + 1) / 2) {
    for (size_t i = 0; i < n / 2; ++i) values[i] = values[2 * i] + values[2 * i + 1];
    if (n % 2 != 0) values[n / 2] = values[n - 1];
  }
  return values.empty() ? 0.0 : values[0];
}

// A block of work is a node of the tree: a power of two of its leaves.
void sum_squares(Queue& queue, std::span<const Tensor> xs, std::span<double> sums) {
  constexpr int64_t kLeaves = kBlockElements / kNormBlock;
  static_assert((kLeaves & (kLeaves - 1)) == 0);
  check(xs.size() == sums.size(), "sum_squares: got {} sums, expected {}", sums.size(), xs.size());
  double flops = 0.0, bytes = 0.0;
  std::vector<std::vector<double>> nodes;
  for (const Tensor& x : xs) {
    expect("sum_squares", "x", x, x.shape(), Dtype::f32);
    flops += 2.0 * flops_of(x);
    bytes += bytes_of(x);
    nodes.emplace_back(on_cpu(queue) ? static_cast<size_t>(num_blocks(x.numel(), kBlockElements)) : 0);
  }
  const auto row = choose_f32(queue, &F32Rows::sum_squares);
  const Meter::Call call = metered(queue, "sum_squares", flops, bytes);
  for_blocks_of(
      queue, xs.size(), [&](size_t i) { return xs[i].numel(); },
      [&](size_t i, int64_t first, int64_t count) {
        std::array<double, kLeaves> leaves{};
        for (int64_t at = 0; at < count; at += kNormBlock)
          leaves[static_cast<size_t>(at / kNormBlock)] =
              row(xs[i].data<float>() + first + at, std::min(kNormBlock, count - at));
        nodes[i][static_cast<size_t>(first / kBlockElements)] =
            add_in_tree({leaves.data(), static_cast<size_t>(num_blocks(count, kNormBlock))});
      });
  for (size_t i = 0; i < xs.size(); ++i) sums[i] = add_in_tree(nodes[i]);
}

}  // namespace

const ElementwiseKernels cpu_elementwise{add, accumulate, scale, column_sum, cast, sum_squares};

}  // namespace athanor::kernels
