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

// The host needs the sums, so this waits for the device, once for all of them.
void sum_squares(Queue& queue, std::span<const Tensor> xs, std::span<double> sums) {
  cpu_elementwise.sum_squares(queue, xs, sums);
  if (xs.empty()) return;
  CudaQueue& device = cuda(queue);
  Tensor results = zeros(xs.front().arena(), {std::ssize(xs)}, Dtype::f64, Category::workspace);
  for (size_t i = 0; i < xs.size(); ++i) {
    const Tensor& x = xs[i];
    if (x.numel() == 0) continue;
    const Tensor partials =
        empty(x.arena(), {2, num_blocks(x.numel(), kNormBlock)}, Dtype::f64, Category::workspace);
    device.submitted(
        "sum_squares", x,
        kernels_of(device).sum_squares(device.stream(), partials.data<double>(), x.data<float>(), x.numel()));
    device.copy(results.data<double>() + i, partials.raw(), sizeof(double));
  }
  device.copy_out(sums.data(), results.raw(), results.size_bytes());
}

}  // namespace

const ElementwiseKernels cuda_elementwise{add, accumulate, scale, column_sum, cast, sum_squares};

}  // namespace athanor::kernels
