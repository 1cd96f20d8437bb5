#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

void rows(Queue& queue, Tensor& loss, Tensor* dlogits, const Tensor& logits, const Tensor& targets,
          int64_t classes, float scale) {
  cpu_cross_entropy.rows(queue, loss, dlogits, logits, targets, classes, scale);
  CudaQueue& device = cuda(queue);
  device.submitted("cross_entropy.rows", logits,
                   kernels_of(device).cross_entropy_rows(
                       device.stream(), dlogits == nullptr ? Dtype::f32 : dlogits->dtype(),
                       loss.data<float>(), raw_or_null(dlogits), logits.data<float>(),
                       targets.data<int32_t>(), logits.dim(0), logits.dim(1), classes, scale));
}

void statistics(Queue& queue, Tensor& result, const Tensor& logits, const Tensor& targets,
                const ClassRange& classes) {
  cpu_cross_entropy.statistics(queue, result, logits, targets, classes);
  CudaQueue& device = cuda(queue);
  device.submitted("cross_entropy.statistics", logits,
                   kernels_of(device).cross_entropy_statistics(
                       device.stream(), result.data<float>(), logits.data<float>(), targets.data<int32_t>(),
                       logits.dim(0), logits.dim(1), classes.first, classes.count, classes.total));
}

void gradient(Queue& queue, Tensor& dlogits, const Tensor& logits, const Tensor& norms, const Tensor& targets,
              const ClassRange& classes, float scale) {
  cpu_cross_entropy.gradient(queue, dlogits, logits, norms, targets, classes, scale);
  CudaQueue& device = cuda(queue);
  device.submitted("cross_entropy.gradient", logits,
                   kernels_of(device).cross_entropy_gradient(
                       device.stream(), dlogits.dtype(), dlogits.raw(), logits.data<float>(),
                       norms.data<float>(), targets.data<int32_t>(), logits.dim(0), logits.dim(1),
                       classes.first, classes.count, classes.total, scale));
}

}  // namespace

const CrossEntropyKernels cuda_cross_entropy{rows, statistics, gradient};

}  // namespace athanor::kernels
