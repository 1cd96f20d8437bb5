#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

constexpr int64_t kBlockTokens = 64;  // of the partial sums

void forward(Queue& queue, Tensor& experts, Tensor& weights, Tensor& lse, Tensor& sums, const Tensor& logits,
             const Tensor* bias, const RouterOptions& options) {
  cpu_router.forward(queue, experts, weights, lse, sums, logits, bias, options);
  CudaQueue& device = cuda(queue);
  const int64_t tokens = logits.dim(0), num_experts = logits.dim(1);
  const Tensor partials = empty(logits.arena(), {num_blocks(tokens, kBlockTokens), num_experts + 1},
                                Dtype::f64, Category::workspace);
  device.submitted(
      "router.forward", logits,
      kernels_of(device).router_forward(device.stream(), experts.data<int32_t>(), weights.data<float>(),
                                        lse.data<float>(), sums.data<double>(), partials.data<double>(),
                                        logits.data<float>(), bias == nullptr ? nullptr : bias->data<float>(),
                                        tokens, num_experts, experts.dim(1), options));
}

void backward(Queue& queue, Tensor& dlogits, const Tensor& dweights, const Tensor& logits,
              const Tensor& experts, const Tensor& lse, const Tensor& share, const RouterOptions& options,
              float loss_scale) {
  cpu_router.backward(queue, dlogits, dweights, logits, experts, lse, share, options, loss_scale);
  CudaQueue& device = cuda(queue);
  device.submitted("router.backward", logits,
                   kernels_of(device).router_backward(
                       device.stream(), dlogits.data<float>(), dweights.data<float>(), logits.data<float>(),
                       experts.data<int32_t>(), lse.data<float>(), share.data<float>(), logits.dim(0),
                       logits.dim(1), experts.dim(1), options, loss_scale));
}

}  // namespace

const RouterKernels cuda_router{forward, backward};

}  // namespace athanor::kernels
