#include <algorithm>
#include <cmath>
#include <vector>

#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor::ops {
namespace {

// loss[n] = logsumexp(logits[n]) - logits[n, target[n]],   logits = x . head^T + bias
// dlogits = loss_scale * (softmax(logits) - onehot),   dx = dlogits . head,   dhead += dlogits^T . x,
// dbias += the column sums of dlogits
//
// The loss is the root of the tape, so its gradient is known in the forward pass. Each chunk of logits is computed
// once, gives loss, dx and dhead, and is freed. Recomputing the logits in the backward pass would add a third to the
// head's arithmetic. Where the head is partitioned by rows, a rank has the logits of its classes; the statistics of all
// ranks (three floats a token) give it the loss and the gradients of its classes. x [..., C];  head [V,C];  bias [V];  targets
// [...] i32;  loss [N] f32;  one chunk: about [kChunkElements / V, V], f32 and T
struct LinearCrossEntropy {
  struct Saved {
    Tensor dx;
  };
  static constexpr bool kGradInForward = true;
  // About how many logits exist at a time (f32: 256 MiB): enough rows that reading the head and its gradient once per
  // product of a chunk costs little beside the arithmetic. More than kWholeElements logits are always split into
  // chunks. Constants, so that results depend on shapes alone.
  static constexpr int64_t kChunkElements = int64_t{1} << 26, kWholeElements = int64_t{1} << 25;
  static constexpr int64_t kRowUnit = 32;  // no product pads in the middle
  // A GPU fills its multiprocessors with more rows, in larger tiles.
  static constexpr int64_t kDeviceChunkElements = int64_t{1} << 28, kDeviceRowUnit = 256;

  static int64_t rows_of_chunk(int64_t tokens, int64_t vocab, Device device) {
    const bool is_cuda = device == Device::cuda;
    const int64_t unit = is_cuda ? kDeviceRowUnit : kRowUnit;
    const int64_t most = std::max(unit, (is_cuda ? kDeviceChunkElements : kChunkElements) / vocab);
    const int64_t fewest = tokens > kWholeElements / vocab ? 2 : 1;
    const int64_t chunks = std::max(fewest, (tokens + most - 1) / most);
    const int64_t rows = (tokens + chunks - 1) / chunks;
    return std::min(tokens, (rows + unit - 1) / unit * unit);
  }

  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& x, Weight& head, Weight* bias,
                        const Tensor& targets, int64_t classes, const CombineStatistics& combine) {
    // Values, not references: with ZeRO-3 a tied head and its bias are of two units, and the second frees the first.
    const Tensor b = bias == nullptr ? Tensor{} : bias->value();
    const Tensor w = head.value();
    const int64_t tokens = x.rows(), width = x.dim(-1), vocab = w.dim(0);
    check(w.dim(-1) == width, "cross_entropy: x {} must end in the columns of '{}' {}", x.shape(),
          head.param().name(), w.shape());
    check(targets.numel() == tokens, "cross_entropy: got {} targets for {} tokens", targets.numel(), tokens);
    const ParamSpec& param = head.param();
    check(0 < classes && classes <= param.whole_shape()[0], "cross_entropy: {} classes of {} rows", classes,
          param.whole_shape()[0]);
    check(
        (param.part(0).size > 1) == static_cast<bool>(combine),
        "cross_entropy: a head partitioned over ranks needs combined softmax statistics, and no other does");
    const int64_t first_class = param.box().offset[0];
    const ClassRange range{first_class, std::clamp<int64_t>(classes - first_class, 0, param.box().extent[0]),
                           classes};
    const int64_t chunk = rows_of_chunk(tokens, vocab, x.queue().device());
    Arena& arena = x.arena();
    const auto& kernel = kernels_of(x);
    Tensor loss = empty(arena, {tokens}, Dtype::f32, Category::activations);
    Tensor logits = empty(arena, {chunk, vocab}, Dtype::f32, Category::workspace);
    Tensor dlogits, dx;
    if (context.record) {
      dlogits = x.dtype() == Dtype::f32 ? logits  // in place
                                        : empty(arena, {chunk, vocab}, x.dtype(), Category::workspace);
      dx = empty_like(x);
    }
    const Tensor x_rows = x.view({tokens, width});
    const Tensor target_rows = targets.view({tokens});
    for (int64_t first = 0; first < tokens; first += chunk) {
      const int64_t last = std::min(tokens, first + chunk);
      const Tensor part = x_rows.slice(first, last);
      Tensor part_logits = logits.slice(0, last - first), part_loss = loss.slice(first, last);
      const Tensor part_targets = target_rows.slice(first, last);
      kernel.gemm.nt(x.queue(), part_logits, part, w, bias == nullptr ? nullptr : &b);
      Tensor part_dlogits;
      if (context.record) part_dlogits = dlogits.slice(0, last - first);
      Tensor* gradient = context.record ? &part_dlogits : nullptr;
      if (combine)
        rows_of_part(part_loss, gradient, part_logits, part_targets, range, context.loss_scale, combine);
      else
        kernel.cross_entropy.rows(x.queue(), part_loss, gradient, part_logits, part_targets, classes,
                                  context.loss_scale);
      if (!context.record) continue;
      Tensor part_dx = dx.view({tokens, width}).slice(first, last);
      kernel.gemm.nn(x.queue(), part_dx, part_dlogits, w);
      const auto slot = head.grad_slot();
      kernel.gemm.tn(x.queue(), slot.tensor, part_dlogits, part, slot.add);
      if (bias != nullptr) kernel.elementwise.column_sum(x.queue(), bias->grad(), part_dlogits);
    }
    saved = {dx};
    return loss;
  }

  // Does what cross_entropy.rows does, for the classes of this rank.
  static void rows_of_part(Tensor& loss, Tensor* dlogits, const Tensor& logits, const Tensor& targets,
                           const ClassRange& range, float scale, const CombineStatistics& combine) {
    Tensor statistics = empty(logits.arena(), {logits.dim(0), 3}, Dtype::f32, Category::workspace);
    kernels_of(logits).cross_entropy.statistics(logits.queue(), statistics, logits, targets, range);
    combine(statistics);
    if (dlogits != nullptr)
      kernels_of(logits).cross_entropy.gradient(logits.queue(), *dlogits, logits, statistics, targets, range,
                                                scale);
    if (logits.queue().device() == Device::null) return;
    // Computed on the host, which combined the statistics.
    const auto rows = static_cast<size_t>(logits.dim(0));
    std::vector<float> all(3 * rows), losses(rows);
    std::vector<int32_t> of_rows(rows);
    copy_to_host(all.data(), statistics, statistics.size_bytes());
    copy_to_host(of_rows.data(), targets, targets.size_bytes());
    for (size_t n = 0; n < rows; ++n)
      losses[n] = of_rows[n] < 0 ? 0.0f : std::log(all[3 * n + 1]) + (all[3 * n] - all[3 * n + 2]);
    copy_from_host(loss, losses.data(), loss.size_bytes());
  }

  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    check(!dy.defined(), "cross_entropy: it is the root of the backward pass and knows its own gradient");
    return {saved.dx};
  }
};

}  // namespace

Var linear_cross_entropy(const Var& x, Weight& head, Weight* bias, const Tensor& targets, int64_t classes,
                         const CombineStatistics& combine) {
  return apply<LinearCrossEntropy>(*x.tape, x, head, bias, targets, classes, combine);
}

}  // namespace athanor::ops
