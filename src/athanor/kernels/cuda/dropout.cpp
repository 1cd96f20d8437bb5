#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

void apply(Queue& queue, Tensor& y, const Tensor& x, float p, uint64_t key, uint64_t step,
           uint64_t first_element) {
  cpu_dropout.apply(queue, y, x, p, key, step, first_element);
  CudaQueue& device = cuda(queue);
  device.submitted("dropout.apply", x,
                   kernels_of(device).dropout(device.stream(), x.dtype(), y.raw(), x.raw(), x.numel(), p, key,
                                              step, first_element));
}

}  // namespace

const DropoutKernels cuda_dropout{apply};

}  // namespace athanor::kernels
