#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

void apply(Queue& queue, Tensor& y, const Tensor& x, float p, uint64_t key, uint64_t step,
           uint64_t first_element) {
  const char* kernel = "dropout.apply";
  const DropoutRows& rows = choose(queue, &RowTable::dropout, row_type(kernel, x), &DropoutRows::apply);
  expect(kernel, "y", y, x.shape(), x.dtype());
  check(p >= 0 && p < 1, "{}: got probability {}, expected 0 <= p < 1", kernel, p);
  const Meter::Call call = metered(queue, kernel, flops_of(x), bytes_of(y, x));
  for_blocks(queue, x.numel(), kBlockElements, [&](int64_t first, int64_t count) {
    rows.apply(at(y, first), at(x, first), count, p, key, step, first_element + static_cast<uint64_t>(first));
  });
}

}  // namespace

const DropoutKernels cpu_dropout{apply};

}  // namespace athanor::kernels
