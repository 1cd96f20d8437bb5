#include "athanor/parallel/context/ulysses_attention.h"

#include <cstring>

#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor::parallel::context {
namespace {

// Which of `heads` each rank has for all tokens: the same number on every rank; with fewer heads than ranks,
// consecutive ranks have the same head.
struct HeadSplit {
  int64_t heads, ranks;
  int64_t each() const { return heads < ranks ? 1 : heads / ranks; }
  int64_t first(int64_t rank) const { return rank * heads / ranks; }
};

class Exchange {
 public:
  Exchange(const UlyssesPlan& plan, int64_t heads)
      : plan_(plan), split_{heads, plan.group->size()}, rank_(plan.group->rank()) {
    for (const auto& runs : plan.runs) length_ += token_count(runs);
  }

  // x [B,S,H,D] of the own tokens -> [B,length,h,D].
  Tensor to_heads(const Tensor& x) const {
    const Layout of{x.dim(0), x.dim(3), static_cast<int64_t>(size_of(x.dtype()))};
    const int64_t own = x.dim(1), row = of.head_dim * split_.each() * of.element;
    const Tensor out = buffer(x, of.batch * own * split_.ranks), in = buffer(x, of.batch * length_);
    Tensor y =
        empty(x.arena(), {of.batch, length_, split_.each(), of.head_dim}, x.dtype(), Category::activations);
    x.queue().parallel_for(split_.ranks, [&](int64_t to) {
      std::byte* place = bytes(out) + to * of.batch * own * row;
      for (int64_t token = 0; token < of.batch * own; ++token, place += row)
        std::memcpy(place, bytes(x) + (token * split_.heads + split_.first(to)) * of.head_dim * of.element,
                    static_cast<size_t>(row));
    });
    swap(out, in, of.batch * own, of.batch, true);
    x.queue().parallel_for(split_.ranks, [&](int64_t from) {
      const std::byte* place = bytes(in) + before(from) * of.batch * row;
      for (int64_t b = 0; b < of.batch; ++b)
        for (const TokenRun& run : plan_.runs[static_cast<size_t>(from)]) {
          std::memcpy(bytes(y) + (b * length_ + run.first) * row, place,
                      static_cast<size_t>(run.count * row));
          place += run.count * row;
        }
    });
    return y;
  }

  // x [B,length,h,D] -> [B,S,H,D] of the own tokens; a head that several ranks had is summed over them.
  Tensor to_tokens(const Tensor& x) const {
    const Layout of{x.dim(0), x.dim(3), static_cast<int64_t>(size_of(x.dtype()))};
    const int64_t own = token_count(plan_.runs[static_cast<size_t>(rank_)]);
    const int64_t row = of.head_dim * split_.each() * of.element;
    const Tensor out = buffer(x, of.batch * length_), in = buffer(x, of.batch * own * split_.ranks);
    Tensor y = empty(x.arena(), {of.batch, own, split_.heads, of.head_dim}, x.dtype(), Category::activations);
    x.queue().parallel_for(split_.ranks, [&](int64_t to) {
      std::byte* place = bytes(out) + before(to) * of.batch * row;
      for (int64_t b = 0; b < of.batch; ++b)
        for (const TokenRun& run : plan_.runs[static_cast<size_t>(to)]) {
          std::memcpy(place, bytes(x) + (b * length_ + run.first) * row,
                      static_cast<size_t>(run.count * row));
          place += run.count * row;
        }
    });
    swap(out, in, of.batch * own, of.batch, false);
    if (split_.heads < split_.ranks) return add_shared(y, in, of, own);
    x.queue().parallel_for(split_.ranks, [&](int64_t from) {
      const std::byte* place = bytes(in) + from * of.batch * own * row;
      for (int64_t token = 0; token < of.batch * own; ++token, place += row)
        std::memcpy(bytes(y) + (token * split_.heads + split_.first(from)) * of.head_dim * of.element, place,
                    static_cast<size_t>(row));
    });
    return y;
  }

 private:
  struct Layout {
    int64_t batch, head_dim, element;
  };

  static std::byte* bytes(const Tensor& x) { return static_cast<std::byte*>(x.raw()); }
  Tensor buffer(const Tensor& like, int64_t tokens) const {
    return empty(like.arena(), {tokens, split_.each() * like.dim(3)}, like.dtype(), Category::communication);
  }
  int64_t before(int64_t rank) const {
    int64_t sum = 0;
    for (int64_t r = 0; r < rank; ++r) sum += token_count(plan_.runs[static_cast<size_t>(r)]);
    return sum;
  }

  // The all-to-all: each rank gets rows for all own tokens in one direction, for its tokens in the other.
  void swap(const Tensor& out, const Tensor& in, int64_t own_rows, int64_t batch, bool sends_own) const {
    std::vector<int64_t> own, theirs;
    for (const auto& runs : plan_.runs) {
      own.push_back(own_rows * out.dim(1));
      theirs.push_back(token_count(runs) * batch * out.dim(1));
    }
    // Groups have no f16; its bits are sent as bf16.
    const Dtype wire = out.dtype() == Dtype::f16 ? Dtype::bf16 : out.dtype();
    plan_.group
        ->all_to_all_v(out.raw(), sends_own ? own : theirs, in.raw(), sends_own ? theirs : own, wire,
                       sends_own ? "tokens to heads" : "heads to tokens")
        .wait(in.queue());
  }

  // Sums are f32, also of bf16 and f16, rounded once.
  Tensor add_shared(Tensor& y, const Tensor& in, const Layout& of, int64_t own) const {
    const int64_t copies = split_.ranks / split_.heads, rows = of.batch * own;
    Tensor wide = empty(y.arena(), {split_.heads, rows, of.head_dim}, Dtype::f32, Category::workspace);
    Tensor all = in.view({split_.ranks, rows, of.head_dim});
    if (in.dtype() != Dtype::f32) {
      all = empty(y.arena(), all.shape(), Dtype::f32, Category::workspace);
      kernels_of(y).elementwise.cast(y.queue(), all, in.view(all.shape()));
    }
    for (int64_t head = 0; head < split_.heads; ++head) {
      Tensor sum = wide.slice(head, head + 1);
      const Tensor first = all.slice(head * copies, head * copies + 1);
      copy(sum, first);
      for (int64_t copy = 1; copy < copies; ++copy)
        kernels_of(y).elementwise.accumulate(y.queue(), sum,
                                             all.slice(head * copies + copy, head * copies + copy + 1));
    }
    Tensor narrow = wide;
    if (y.dtype() != Dtype::f32) {
      narrow = empty(y.arena(), wide.shape(), y.dtype(), Category::workspace);
      kernels_of(y).elementwise.cast(y.queue(), narrow, wide);
    }
    const auto width = static_cast<size_t>(of.head_dim * of.element);
    y.queue().parallel_for(split_.heads, [&](int64_t head) {
      for (int64_t row = 0; row < rows; ++row)
        std::memcpy(bytes(y) + static_cast<size_t>(row * split_.heads + head) * width,
                    bytes(narrow) + static_cast<size_t>(head * rows + row) * width, width);
    });
    return y;
  }

  const UlyssesPlan& plan_;
  HeadSplit split_;
  int rank_;
  int64_t length_ = 0;
};

struct ToHeads {
  struct Saved {
    const UlyssesPlan* plan;
    int64_t heads;
  };
  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, const UlyssesPlan* plan) {
    saved = {plan, x.dim(2)};
    return Exchange(*plan, saved.heads).to_heads(x);
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {Exchange(*saved.plan, saved.heads).to_tokens(dy)};
  }
};

struct ToTokens {
  using Saved = ToHeads::Saved;
  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, const UlyssesPlan* plan,
                        int64_t heads) {
    saved = {plan, heads};
    return Exchange(*plan, heads).to_tokens(x);
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {Exchange(*saved.plan, saved.heads).to_heads(dy)};
  }
};

}  // namespace

bool ulysses_divides(int64_t heads, int64_t kv_heads, int64_t ranks) {
  return heads % ranks == 0 && (kv_heads % ranks == 0 || ranks % kv_heads == 0);
}

Var ulysses_attention(const Var& q, const Var& k, const Var& v, const UlyssesPlan& plan,
                      const HeadMasks& masks) {
  const int64_t heads = q.value.dim(2), kv_heads = k.value.dim(2), ranks = plan.group->size();
  check(ulysses_divides(heads, kv_heads, ranks),
        "ulysses: got {} heads and {} of keys and values for {} ranks, expected numbers that divide", heads,
        kv_heads, ranks);
  Tape& tape = *q.tape;
  const auto by_heads = [&](const Var& x) { return apply<ToHeads>(tape, x, &plan); };
  const Var all_q = by_heads(q), all_k = by_heads(k), all_v = by_heads(v);
  HeadMasks own = masks;  // of this rank's share of the heads
  own.first_head += HeadSplit{heads, ranks}.first(plan.group->rank());
  return apply<ToTokens>(tape, whole_attention(all_q, all_k, all_v, own), &plan, heads);
}

}  // namespace athanor::parallel::context
