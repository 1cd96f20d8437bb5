#include <vector>

#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

void add(Queue& queue, Tensor& y, const Tensor& a, const Tensor& b) {
  cpu_elementwise.add(queue, y, a, b);
  CudaQueue& device = cuda(queue);
  device.submitted("add", a,
                   kernels_of(device).add(device.stream(), a.dtype(), y.raw(), a.raw(), b.raw(), a.numel()));
}

void accumulate(Queue& queue, Tensor& y, const Tensor& x) {
  cpu_elementwise.accumulate(queue, y, x);
  CudaQueue& device = cuda(queue);
  device.submitted(
      "accumulate", x,
      kernels_of(device).accumulate(device.stream(), y.data<float>(), x.data<float>(), x.numel()));
}

void scale(Queue& queue, Tensor& x, float factor) {
  cpu_elementwise.scale(queue, x, factor);
  CudaQueue& device = cuda(queue);
  device.submitted("scale", x, kernels_of(device).scale(device.stream(), x.data<float>(), factor, x.numel()));
}

void column_sum(Queue& queue, Tensor& out, const Tensor& x) {
  cpu_elementwise.column_sum(queue, out, x);
  CudaQueue& device = cuda(queue);
  const Tensor partials = empty_partials(x.arena(), x.rows(), x.dim(-1));
  device.submitted("column_sum", x,
                   kernels_of(device).column_sum(device.stream(), x.dtype(), out.data<float>(),
                                                 partials.data<float>(), x.raw(), x.rows(), x.dim(-1)));
}

void cast(Queue& queue, Tensor& y, const Tensor& x) {
  cpu_elementwise.cast(queue, y, x);
  CudaQueue& device = cuda(queue);
  device.submitted(
      "cast", x, kernels_of(device).cast(device.stream(), y.dtype(), y.raw(), x.dtype(), x.raw(), x.numel()));
}

// A table for a kernel, in the device's memory.
template <typename Part>
Tensor to_device(CudaQueue& device, Arena& arena, const std::vector<Part>& parts) {
  const uint64_t bytes = parts.size() * sizeof(Part);
  Tensor table = empty(arena, {static_cast<int64_t>(bytes)}, Dtype::u8, Category::workspace);
  device.copy_in(table.raw(), parts.data(), bytes);
  return table;
}

// The host needs the sums, so this waits for the device, once for all of them. A few launches for all arrays: each adds up
// what is left of all of them.
void sum_squares(Queue& queue, std::span<const Tensor> xs, std::span<double> sums) {
  cpu_elementwise.sum_squares(queue, xs, sums);
  std::vector<CudaSquares> squares;
  std::vector<CudaNodes> nodes;
  int64_t num_leaves = 0;
  for (const Tensor& x : xs) {
    const int64_t leaves = num_blocks(x.numel(), kNormBlock);
    if (leaves == 0) continue;
    squares.push_back({x.data<float>(), x.numel(), num_leaves});
    nodes.push_back({num_leaves, leaves, 0});
    num_leaves += leaves;
  }
  if (squares.empty()) return;
  CudaQueue& device = cuda(queue);
  const Tensor& first = xs.front();
  Arena& arena = first.arena();
  const auto num_parts = static_cast<int64_t>(squares.size());
  const Tensor arrays = to_device(device, arena, squares);
  Tensor from = empty(arena, {num_leaves}, Dtype::f64, Category::workspace);
  device.submitted("sum_squares", first,
                   kernels_of(device).square_sums(device.stream(), from.data<double>(),
                                                  reinterpret_cast<const CudaSquares*>(arrays.raw()),
                                                  num_parts, num_leaves));
  for (int64_t left = num_leaves; left > num_parts;) {
    int64_t above = 0;
    for (CudaNodes& part : nodes) {
      part.first = above;
      above += num_blocks(part.count, kCudaNodeLeaves);
    }
    const Tensor table = to_device(device, arena, nodes);
    Tensor to = empty(arena, {above}, Dtype::f64, Category::workspace);
    device.submitted(
        "sum_squares", first,
        kernels_of(device).tree_sums(device.stream(), to.data<double>(), from.data<double>(),
                                     reinterpret_cast<const CudaNodes*>(table.raw()), num_parts, above));
    for (CudaNodes& part : nodes) part = {part.first, num_blocks(part.count, kCudaNodeLeaves), 0};
    from = to;
    left = above;
  }
  std::vector<double> results(squares.size());
  device.copy_out(results.data(), from.raw(), results.size() * sizeof(double));
  for (size_t i = 0, next = 0; i < xs.size(); ++i)
    if (xs[i].numel() > 0) sums[i] = results[next++];
}

}  // namespace

const ElementwiseKernels cuda_elementwise{add, accumulate, scale, column_sum, cast, sum_squares};

}  // namespace athanor::kernels
