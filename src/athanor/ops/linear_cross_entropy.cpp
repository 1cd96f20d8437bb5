#include <algorithm>

#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor {
namespace {

// loss[n] = logsumexp(logits[n]) - logits[n, target[n]],   logits = x . head^T
// dlogits = loss_scale * (softmax(logits) - onehot),   dx = dlogits . head,   dhead += dlogits^T . x
//
// The loss is the root of the tape and its gradient is known in the forward pass, so each chunk of logits is
// made once: loss, dx and dhead come out of it and it is gone. Recomputing the logits backward would cost a
// third of the head's arithmetic again. x [..., C];  head [V,C];  targets [...] i32;  loss [N] f32;  one
// chunk: about [kChunkElements / V, V] f32 and T
struct LinearCrossEntropy {
  struct Saved {
    Tensor dx;
  };
  // About how many logits exist at a time (f32: 256 MiB): enough rows that passing over the head and its gradient,
  // once for each product of a chunk, is little beside the arithmetic. More than kWholeElements never exist
  // whole. Constants, so results depend on shapes alone.
  static constexpr int64_t kChunkElements = int64_t{1} << 26, kWholeElements = int64_t{1} << 25;
  static constexpr int64_t kRowUnit = 32;  // no product pads in the middle

  static int64_t rows_of_chunk(int64_t tokens, int64_t vocab) {
    const int64_t most = std::max(kRowUnit, kChunkElements / vocab);
    const int64_t fewest = tokens > kWholeElements / vocab ? 2 : 1;
    const int64_t chunks = std::max(fewest, (tokens + most - 1) / most);
    const int64_t rows = (tokens + chunks - 1) / chunks;
    return std::min(tokens, (rows + kRowUnit - 1) / kRowUnit * kRowUnit);
  }

  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& x, Weight& head,
                        const Tensor& targets, int64_t classes) {
    const Tensor& w = head.value();
    const int64_t tokens = x.rows(), width = x.dim(-1), vocab = w.dim(0);
    check(w.dim(-1) == width, "cross_entropy: x {} must end in the columns of '{}' {}", x.shape(),
          head.param().name(), w.shape());
    check(targets.numel() == tokens, "cross_entropy: got {} targets for {} tokens", targets.numel(), tokens);
    check(0 < classes && classes <= vocab, "cross_entropy: {} classes of {} rows", classes, vocab);
    const int64_t chunk = rows_of_chunk(tokens, vocab);
    Arena& arena = x.arena();
    const auto& kernel = kernels(x);
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
      kernel.gemm.nt(x.queue(), part_logits, part, w, nullptr);
      if (!context.record) {
        kernel.cross_entropy.rows(x.queue(), part_loss, nullptr, part_logits, target_rows.slice(first, last),
                                  classes, 1.0f);
        continue;
      }
      Tensor part_dlogits = dlogits.slice(0, last - first);
      Tensor part_dx = dx.view({tokens, width}).slice(first, last);
      kernel.cross_entropy.rows(x.queue(), part_loss, &part_dlogits, part_logits,
                                target_rows.slice(first, last), classes, context.loss_scale);
      kernel.gemm.nn(x.queue(), part_dx, part_dlogits, w);
      const auto slot = head.grad_slot();
      kernel.gemm.tn(x.queue(), slot.tensor, part_dlogits, part, slot.add);
    }
    saved = {dx};
    return loss;
  }

  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    check(!dy.defined(), "cross_entropy: it is the root of the backward pass and knows its own gradient");
    return {saved.dx};
  }
};

}  // namespace

Var linear_cross_entropy(const Var& x, Weight& head, const Tensor& targets, int64_t classes) {
  return apply<LinearCrossEntropy>(*x.tape, x, head, targets, classes);
}

}  // namespace athanor
