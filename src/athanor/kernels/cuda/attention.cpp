#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

CudaAttention problem_of(const Tensor& q, const Tensor& k, const Tensor& v, float scale,
                         const AttentionPart& part) {
  check(part.scores == nullptr,
        "cuda: attention: got terms of scores, expected none: only the CPU's kernels have them");
  check(v.dim(3) == q.dim(3),
        "cuda: attention: got values of {} elements and queries of {}, expected one width: only the CPU's "
        "kernels "
        "have two",
        v.dim(3), q.dim(3));
  check(part.mask == nullptr && part.end_keys == nullptr,
        "cuda: attention: got a mask or ends of keys, expected neither: only the CPU's kernels have them");
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

// The vendor's fused kernels where they take the problem, with their workspace.
class Fused {
 public:
  Fused(CudaQueue& device, const Tensor& q, const CudaAttention& problem, bool backward,
        std::initializer_list<const void*> places)
      : calls_(device.calls().fused_attention) {
    if (calls_ == nullptr || !std::ranges::all_of(places, is_aligned)) return;
    uint64_t bytes = 0;
    const char* error = calls_->plan(device.stream(), q.dtype(), problem, backward, &can_, &bytes);
    check(error == nullptr, "cuda: attention: {}", error == nullptr ? "" : error);
    if (can_) workspace_.emplace(q.arena(), bytes);
  }
  bool can() const { return can_; }
  const CudaFusedAttention* operator->() const { return calls_; }
  void* workspace() const { return workspace_->data(); }

 private:
  static bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

  const CudaFusedAttention* calls_;
  bool can_ = false;
  std::optional<LibraryWorkspace> workspace_;
};

void forward(Queue& queue, Tensor& o, Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
             float scale, const AttentionPart& part) {
  cpu_attention.forward(queue, o, lse, q, k, v, scale, part);
  CudaQueue& device = cuda(queue);
  const CudaAttention problem = problem_of(q, k, v, scale, part);
  Fused fused(device, q, problem, /*backward=*/false, {o.raw(), q.raw(), k.raw(), v.raw()});
  device.submitted("attention.forward", q,
                   fused.can() ? fused->forward(device.stream(), q.dtype(), o.raw(), lse.data<float>(),
                                                q.raw(), k.raw(), v.raw(), problem, fused.workspace())
                               : kernels_of(device).attention_forward(device.stream(), q.dtype(), o.raw(),
                                                                      lse.data<float>(), q.raw(), k.raw(),
                                                                      v.raw(), problem));
}

void backward(Queue& queue, Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& d_o, const Tensor& o,
              const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, float scale,
              const AttentionPart& part) {
  cpu_attention.backward(queue, dq, dk, dv, d_o, o, lse, q, k, v, scale, part);
  CudaQueue& device = cuda(queue);
  const Tensor delta = empty(q.arena(), lse.shape(), Dtype::f32, Category::workspace);
  const CudaAttention problem = problem_of(q, k, v, scale, part);
  Fused fused(device, q, problem, /*backward=*/true,
              {dq.raw(), dk.raw(), dv.raw(), d_o.raw(), o.raw(), q.raw(), k.raw(), v.raw()});
  device.submitted("attention.backward", q,
                   fused.can()
                       ? fused->backward(device.stream(), q.dtype(), dq.raw(), dk.raw(), dv.raw(), d_o.raw(),
                                         o.raw(), lse.data<float>(), delta.data<float>(), q.raw(), k.raw(),
                                         v.raw(), problem, fused.workspace())
                       : kernels_of(device).attention_backward(
                             device.stream(), q.dtype(), dq.raw(), dk.raw(), dv.raw(), d_o.raw(), o.raw(),
                             lse.data<float>(), delta.data<float>(), q.raw(), k.raw(), v.raw(), problem));
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

[[noreturn]] void refuse_sinks() {
  fail("cuda: attention: got sinks, expected none: only the CPU's kernels have them");
}
void add_sinks(Queue&, Tensor&, Tensor&, const Tensor&) {
  refuse_sinks();
}
void sinks_backward(Queue&, Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  refuse_sinks();
}

}  // namespace

const AttentionKernels cuda_attention{forward, backward, merge, add_sinks, sinks_backward};

}  // namespace athanor::kernels
