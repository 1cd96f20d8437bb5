#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor {
namespace {

// y[i] = keep(i) ? x[i] / (1 - p) : 0;  dx[i] = keep(i) ? dy[i] / (1 - p) : 0           x, y [B, ...]
// keep(i) is drawn by address: (stream, index of the element in the step's global batch, step). Nothing is
// stored.
struct Dropout {
  struct Saved {
    float p;
    uint64_t key, step, first_element;
  };

  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& x, float p, uint64_t key,
                        const TokenPart& part) {
    int64_t first = context.first_sequence * (x.numel() / std::max<int64_t>(1, x.dim(0)));
    if (part.size > 1) first = (context.first_sequence * context.seq_len + part.rank * x.rows()) * x.dim(-1);
    saved = {p, key, context.step, static_cast<uint64_t>(first)};
    return drop(saved, x);
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {drop(saved, dy)};
  }

  static Tensor drop(const Saved& saved, const Tensor& x) {
    Tensor y = empty_like(x);
    kernels(x).dropout.apply(x.queue(), y, x, saved.p, saved.key, saved.step, saved.first_element);
    return y;
  }
};

}  // namespace

Var dropout(const Var& x, float p, uint64_t stream_key, TokenPart part) {
  if (p == 0.0f || !x.tape->context().dropout) return x;
  return apply<Dropout>(*x.tape, x, p, stream_key, part);
}

}  // namespace athanor
