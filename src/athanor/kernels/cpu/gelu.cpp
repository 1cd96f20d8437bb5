#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

void forward(Queue& queue, Tensor& y, const Tensor& x, GeluForm form) {
  const char* kernel = "gelu.forward";
  const auto member = form == GeluForm::exact ? &GeluRows::exact_forward : &GeluRows::forward;
  const GeluRows& rows = choose(queue, &RowTable::gelu, row_type(kernel, x), member);
  expect(kernel, "y", y, x.shape(), x.dtype());
  const Meter::Call call = metered(queue, kernel, 8.0 * flops_of(x), bytes_of(y, x));
  for_blocks(queue, x.numel(), kBlockElements,
             [&](int64_t first, int64_t count) { (rows.*member)(at(y, first), at(x, first), count); });
}

void backward(Queue& queue, Tensor& dx, const Tensor& dy, const Tensor& x, GeluForm form) {
  const char* kernel = "gelu.backward";
  const auto member = form == GeluForm::exact ? &GeluRows::exact_backward : &GeluRows::backward;
  const GeluRows& rows = choose(queue, &RowTable::gelu, row_type(kernel, x), member);
  expect(kernel, "dx", dx, x.shape(), x.dtype());
  expect(kernel, "dy", dy, x.shape(), x.dtype());
  const Meter::Call call = metered(queue, kernel, 16.0 * flops_of(x), bytes_of(dx, dy, x));
  for_blocks(queue, x.numel(), kBlockElements, [&](int64_t first, int64_t count) {
    (rows.*member)(at(dx, first), at(dy, first), at(x, first), count);
  });
}

}  // namespace

const GeluKernels cpu_gelu{forward, backward};

}  // namespace athanor::kernels
