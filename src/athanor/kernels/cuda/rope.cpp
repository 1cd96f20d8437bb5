#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

void apply(Queue& queue, Tensor& y, const Tensor& x, const Tensor& cos, const Tensor& sin,
           int64_t first_position, int sign) {
  cpu_rope.apply(queue, y, x, cos, sin, first_position, sign);
  CudaQueue& device = cuda(queue);
  const int64_t first = first_position * (x.dim(3) / 2);
  device.submitted(
      "rope.apply", x,
      kernels_of(device).rope(device.stream(), x.dtype(), y.raw(), x.raw(), cos.data<float>() + first,
                              sin.data<float>() + first, x.dim(0) * x.dim(1), x.dim(1), x.dim(2), x.dim(3),
                              static_cast<float>(sign)));
}

}  // namespace

const RopeKernels cuda_rope{apply};

}  // namespace athanor::kernels
