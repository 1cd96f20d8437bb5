#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

void forward(Queue& queue, Tensor& y, const Tensor& x) {
  const char* kernel = "gelu.forward";
  const GeluRows& rows = choose(queue, &RowTable::gelu, row_type(kernel, x), &GeluRows::forward);
  expect(kernel, "y", y, x.shape(), x.dtype());
  const Meter::Call call = metered(queue, kernel, 8.0 * flops_of(x), bytes_of(y, x));
  for_blocks(queue, x.numel(), kBlockElements,
             [&](int64_t first, int64_t count) { rows.forward(at(y, first), at(x, first), count); });
}

void backward(Queue& queue, Tensor& dx, const Tensor& dy, const Tensor& x) {
  const char* kernel = "gelu.backward";
  const GeluRows& rows = choose(queue, &RowTable::gelu, row_type(kernel, x), &GeluRows::backward);
  expect(kernel, "dx", dx, x.shape(), x.dtype());
  expect(kernel, "dy", dy, x.shape(), x.dtype());
  const Meter::Call call = metered(queue, kernel, 16.0 * flops_of(x), bytes_of(dx, dy, x));
  for_blocks(queue, x.numel(), kBlockElements, [&](int64_t first, int64_t count) {
    rows.backward(at(dx, first), at(dy, first), at(x, first), count);
  });
}

}  // namespace

const GeluKernels cpu_gelu{forward, backward};

}  // namespace athanor::kernels
