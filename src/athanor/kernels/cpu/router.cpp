#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

constexpr int64_t kBlockTokens = 64;  // constant: `sums` are formed block by block
constexpr int64_t kMaxExperts = 4096;

struct Sizes {
  int64_t tokens, experts, chosen;
};

Sizes check_shapes(const char* kernel, const Tensor& logits, const Tensor& experts, const Tensor& weights,
                   const Tensor& lse) {
  check(logits.defined() && logits.shape().dims() == 2, "{}: logits are {}, expected [N,E]", kernel,
        logits.shape());
  check(experts.defined() && experts.shape().dims() == 2, "{}: experts are {}, expected [N,K]", kernel,
        experts.shape());
  const Sizes sizes{logits.dim(0), logits.dim(1), experts.dim(1)};
  check(sizes.experts >= 1 && sizes.experts <= kMaxExperts, "{}: got {} experts, expected 1 to {}", kernel,
        sizes.experts, kMaxExperts);
  check(sizes.chosen >= 1 && sizes.chosen <= sizes.experts, "{}: got {} experts per token, expected 1 to {}",
        kernel, sizes.chosen, sizes.experts);
  expect(kernel, "logits", logits, logits.shape(), Dtype::f32);
  expect(kernel, "experts", experts, {sizes.tokens, sizes.chosen}, Dtype::i32);
  expect(kernel, "weights", weights, {sizes.tokens, sizes.chosen}, Dtype::f32);
  expect(kernel, "lse", lse, {sizes.tokens}, Dtype::f32);
  return sizes;
}

RouterRow row_of(const RouterOptions& options, const Sizes& sizes, float loss_scale) {
  return {.is_sigmoid = options.score == RouterScore::sigmoid,
          .renormalize = options.renormalize,
          .experts_per_token = sizes.chosen,
          .scale = options.scale,
          .aux_loss = options.aux_loss,
          .z_loss = options.z_loss,
          .loss_scale = loss_scale};
}

RouterRows choose_rows(const Queue& queue) {
  for (const RowTable* table : row_tables(queue.isa()))
    if (table->router.forward != nullptr) return table->router;
  return ref_rows.router;
}

void forward(Queue& queue, Tensor& experts, Tensor& weights, Tensor& lse, Tensor& sums, const Tensor& logits,
             const Tensor* bias, const RouterOptions& options) {
  const char* kernel = "router.forward";
  const Sizes n = check_shapes(kernel, logits, experts, weights, lse);
  if (bias != nullptr) expect(kernel, "bias", *bias, {n.experts}, Dtype::f32);
  expect(kernel, "sums", sums, {n.experts + 1}, Dtype::f64);
  const Meter::Call call = metered(queue, kernel, 8.0 * flops_of(logits), bytes_of(logits, weights));
  const int64_t blocks = num_blocks(n.tokens, kBlockTokens), width = n.experts + 1;
  const Tensor partials = zeros(logits.arena(), {blocks, width}, Dtype::f64, Category::workspace);
  const RouterRows rows = choose_rows(queue);
  const RouterRow row = row_of(options, n, 1.0f);
  const float* biases = bias == nullptr ? nullptr : bias->data<float>();
  for_blocks(queue, n.tokens, kBlockTokens, [&](int64_t first, int64_t count) {
    double* partial = partials.data<double>() + first / kBlockTokens * width;
    for (int64_t t = first; t < first + count; ++t)
      rows.forward(experts.data<int32_t>() + t * n.chosen, weights.data<float>() + t * n.chosen,
                   lse.data<float>() + t, partial, logits.data<float>() + t * n.experts, biases, n.experts,
                   row);
  });
  if (!on_cpu(queue)) return;
  auto* total = sums.data<double>();
  std::fill(total, total + width, 0.0);
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t e = 0; e < width; ++e) total[e] += partials.data<double>()[block * width + e];
}

void backward(Queue& queue, Tensor& dlogits, const Tensor& dweights, const Tensor& logits,
              const Tensor& experts, const Tensor& lse, const Tensor& share, const RouterOptions& options,
              float loss_scale) {
  const char* kernel = "router.backward";
  const Sizes n = check_shapes(kernel, logits, experts, dweights, lse);
  expect(kernel, "dlogits", dlogits, logits.shape(), Dtype::f32);
  expect(kernel, "share", share, {n.experts}, Dtype::f32);
  const Meter::Call call = metered(queue, kernel, 16.0 * flops_of(logits), bytes_of(dlogits, logits));
  const RouterRows rows = choose_rows(queue);
  const RouterRow row = row_of(options, n, loss_scale);
  for_blocks(queue, n.tokens, kBlockTokens, [&](int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t)
      rows.backward(dlogits.data<float>() + t * n.experts, dweights.data<float>() + t * n.chosen,
                    logits.data<float>() + t * n.experts, experts.data<int32_t>() + t * n.chosen,
                    lse.data<float>()[t], share.data<float>(), n.experts, row);
  });
}

}  // namespace

const RouterKernels cpu_router{forward, backward};

}  // namespace athanor::kernels
