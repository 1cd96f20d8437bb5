#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

CudaAttention problem_of(const Tensor& q, const Tensor& k, float scale, const AttentionPart& part) {
  return {.batch = q.dim(0),
          .heads = q.dim(2),
          .kv_heads = k.dim(2),
          .head_dim = q.dim(3),
          .all_queries = q.dim(1),
          .first_query = part.first_query,
          .queries = part.queries < 0 ? q.dim(1) - part.first_query : part.queries,
          .all_keys = k.dim(1),
          .first_key = part.first_key,
          .keys = part.keys < 0 ? k.dim(1) - part.first_key : part.keys,
          .causal = part.causal,
          .scale = scale,
          .first_keys = part.first_keys == nullptr ? nullptr : part.first_keys->data<int32_t>()};
}

void forward(Queue& queue, Tensor& o, Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
             float scale, const AttentionPart& part) {
  cpu_attention.forward(queue, o, lse, q, k, v, scale, part);
  CudaQueue& device = cuda(queue);
  device.submitted(
      "attention.forward", q,
      kernels_of(device).attention_forward(device.stream(), q.dtype(), o.raw(), lse.data<float>(), q.raw(),
                                           k.raw(), v.raw(), problem_of(q, k, scale, part)));
}

void backward(Queue& queue, Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& d_o, const Tensor& o,
              const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, float scale,
              const AttentionPart& part) {
  cpu_attention.backward(queue, dq, dk, dv, d_o, o, lse, q, k, v, scale, part);
  CudaQueue& device = cuda(queue);
  const Tensor delta = empty(q.arena(), lse.shape(), Dtype::f32, Category::workspace);
  device.submitted(
      "attention.backward", q,
      kernels_of(device).attention_backward(device.stream(), q.dtype(), dq.raw(), dk.raw(), dv.raw(),
                                            d_o.raw(), o.raw(), lse.data<float>(), delta.data<float>(),
                                            q.raw(), k.raw(), v.raw(), problem_of(q, k, scale, part)));
}

void merge(Queue& queue, Tensor& sum, Tensor& lse, const Tensor& o, const Tensor& o_lse, int64_t first,
           int64_t count) {
  cpu_attention.merge(queue, sum, lse, o, o_lse, first, count);
  CudaQueue& device = cuda(queue);
  device.submitted(
      "attention.merge", o,
      kernels_of(device).attention_merge(device.stream(), o.dtype(), sum.data<float>(), lse.data<float>(),
                                         o.raw(), o_lse.data<float>(), o.dim(0), o.dim(1), o.dim(2), o.dim(3),
                                         first, count < 0 ? o.dim(1) - first : count));
}

}  // namespace

const AttentionKernels cuda_attention{forward, backward, merge};

}  // namespace athanor::kernels
