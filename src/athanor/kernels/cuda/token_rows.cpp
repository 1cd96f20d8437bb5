#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

// The host needs the counts for the shapes of the following calls. So it copies the choices in, and the places back.
ExpertCounts assign(Queue& queue, Tensor& places, Tensor& tokens, const Tensor& experts, int64_t num_experts,
                    std::span<const int64_t> capacity) {
  cpu_token_rows.assign(queue, places, tokens, experts, num_experts, capacity);
  const std::unique_ptr<Queue> host = make_cpu_queue(nullptr, best_isa());
  Arena arena(*host);
  Tensor host_experts = empty(arena, experts.shape(), Dtype::i32, Category::workspace);
  Tensor host_places = empty(arena, places.shape(), Dtype::i32, Category::workspace);
  Tensor host_tokens = zeros(arena, tokens.shape(), Dtype::i32, Category::workspace);
  copy_to_host(host_experts.raw(), experts, experts.size_bytes());
  const ExpertCounts counts =
      cpu_token_rows.assign(*host, host_places, host_tokens, host_experts, num_experts, capacity);
  int64_t rows = 0;
  for (const int64_t kept : counts.kept) rows += kept;
  copy_from_host(places, host_places.raw(), places.size_bytes());
  Tensor written = tokens.slice(0, rows);
  copy_from_host(written, host_tokens.raw(), written.size_bytes());
  return counts;
}

void gather(Queue& queue, Tensor& y, const Tensor& x, const Tensor& tokens) {
  cpu_token_rows.gather(queue, y, x, tokens);
  CudaQueue& device = cuda(queue);
  device.submitted("token_rows.gather", y,
                   kernels_of(device).gather_rows(device.stream(), y.dtype(), y.raw(), x.raw(),
                                                  tokens.data<int32_t>(), y.dim(0), y.dim(1), x.dim(0)));
}

void sum_places(const char* kernel, Queue& queue, Tensor& y, const Tensor& x, const Tensor* weights,
                const Tensor& places) {
  CudaQueue& device = cuda(queue);
  device.submitted(
      kernel, y,
      kernels_of(device).sum_places(device.stream(), y.dtype(), y.raw(), x.raw(),
                                    weights == nullptr ? nullptr : weights->data<float>(),
                                    places.data<int32_t>(), y.dim(0), places.dim(1), y.dim(1), x.dim(0)));
}

void gather_backward(Queue& queue, Tensor& dx, const Tensor& dy, const Tensor& places) {
  cpu_token_rows.gather_backward(queue, dx, dy, places);
  sum_places("token_rows.gather_backward", queue, dx, dy, nullptr, places);
}

void combine(Queue& queue, Tensor& y, const Tensor& x, const Tensor& weights, const Tensor& places) {
  cpu_token_rows.combine(queue, y, x, weights, places);
  sum_places("token_rows.combine", queue, y, x, &weights, places);
}

void combine_backward(Queue& queue, Tensor& dx, Tensor& dweights, const Tensor& dy, const Tensor& x,
                      const Tensor& weights, const Tensor& places) {
  cpu_token_rows.combine_backward(queue, dx, dweights, dy, x, weights, places);
  CudaQueue& device = cuda(queue);
  device.submitted(
      "token_rows.combine_backward", x,
      kernels_of(device).combine_backward(device.stream(), x.dtype(), dx.raw(), dweights.data<float>(),
                                          dy.raw(), x.raw(), weights.data<float>(), places.data<int32_t>(),
                                          dy.dim(0), places.dim(1), dy.dim(1), x.dim(0)));
}

}  // namespace

const TokenRowsKernels cuda_token_rows{assign, gather, gather_backward, combine, combine_backward};

}  // namespace athanor::kernels
