#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

void forward(Queue& queue, Tensor& y, const Tensor& gate, const Tensor& up) {
  const char* kernel = "swiglu.forward";
  const SwigluRows& rows = choose(queue, &RowTable::swiglu, row_type(kernel, gate), &SwigluRows::forward);
  expect(kernel, "y", y, gate.shape(), gate.dtype());
  expect(kernel, "up", up, gate.shape(), gate.dtype());
  const Meter::Call call = metered(queue, kernel, 6.0 * flops_of(gate), bytes_of(y, gate, up));
  for_blocks(queue, gate.numel(), kBlockElements, [&](int64_t first, int64_t count) {
    rows.forward(at(y, first), at(gate, first), at(up, first), count);
  });
}

void backward(Queue& queue, Tensor& dgate, Tensor& dup, const Tensor& dy, const Tensor& gate,
              const Tensor& up) {
  const char* kernel = "swiglu.backward";
  const SwigluRows& rows = choose(queue, &RowTable::swiglu, row_type(kernel, gate), &SwigluRows::backward);
  expect(kernel, "dgate", dgate, gate.shape(), gate.dtype());
  expect(kernel, "dup", dup, gate.shape(), gate.dtype());
  expect(kernel, "dy", dy, gate.shape(), gate.dtype());
  expect(kernel, "up", up, gate.shape(), gate.dtype());
  const Meter::Call call = metered(queue, kernel, 12.0 * flops_of(gate), bytes_of(dgate, dup, dy, gate, up));
  for_blocks(queue, gate.numel(), kBlockElements, [&](int64_t first, int64_t count) {
    rows.backward(at(dgate, first), at(dup, first), at(dy, first), at(gate, first), at(up, first), count);
  });
}

}  // namespace

const SwigluKernels cpu_swiglu{forward, backward};

}  // namespace athanor::kernels
