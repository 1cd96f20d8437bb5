#include "athanor/autograd/apply.h"
#include "athanor/autograd/sequence_part.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor::ops {
namespace {

// y[i] = keep(i) ? x[i] / (1 - p) : 0;  dx[i] = keep(i) ? dy[i] / (1 - p) : 0           x, y [B, ...]
// keep(i) is drawn by address: (stream, index of the element in the step's global batch, step). Nothing is
// stored.
struct Dropout {
  struct Saved {
    float p;
    uint64_t key;
    TokenPart partitioned;
    // Where x lies in the global batch.
    uint64_t step;
    int64_t first_sequence, num_sequences, seq_len;
    const SequencePart* part;
  };

  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& x, float p, uint64_t key,
                        const TokenPart& partitioned) {
    saved = {p,
             key,
             partitioned,
             context.step,
             context.first_sequence,
             context.num_sequences,
             context.seq_len,
             context.part};
    return drop(saved, x);
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {drop(saved, dy)};
  }

  static Tensor drop(const Saved& saved, const Tensor& x) {
    Tensor y = empty_like(x);
    if (saved.part != nullptr) {
      drop_tokens(saved, *saved.part, y, x);
      return y;
    }
    int64_t first = saved.first_sequence * (x.numel() / std::max<int64_t>(1, x.dim(0)));
    if (saved.partitioned.size > 1)
      first = (saved.first_sequence * saved.seq_len + saved.partitioned.rank * x.rows()) * x.dim(-1);
    drop_run(saved, y, x, first);
    return y;
  }
  static void drop_run(const Saved& saved, Tensor& y, const Tensor& x, int64_t first_element) {
    kernels_of(x).dropout.apply(x.queue(), y, x, saved.p, saved.key, saved.step,
                                static_cast<uint64_t>(first_element));
  }
  // Context parallelism: consecutive tokens, run by run.
  static void drop_tokens(const Saved& saved, const SequencePart& part, Tensor& y, const Tensor& x) {
    const int64_t width = x.dim(-1), first = saved.partitioned.rank * x.rows(), last = first + x.rows();
    if (last > saved.num_sequences * saved.seq_len) fill_zero(y);  // rows of padding
    walk_tokens(part, first, last, saved.num_sequences, [&](int64_t row, int64_t place, int64_t count) {
      Tensor to = y.flat((row - first) * width, count * width);
      drop_run(saved, to, x.flat((row - first) * width, count * width),
               (saved.first_sequence * part.length + place) * width);
    });
  }
};

}  // namespace

Var dropout(const Var& x, float p, uint64_t stream_key, TokenPart part) {
  if (p == 0.0f || !x.tape->context().dropout) return x;
  return apply<Dropout>(*x.tape, x, p, stream_key, part);
}

}  // namespace athanor::ops
