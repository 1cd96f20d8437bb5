#include "athanor/parallel/context/ring_attention.h"

#include <cmath>
#include <utility>

#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"

namespace athanor::parallel::context {
namespace {

// Two tensors of one shape in one buffer, sent as one message.
struct Pair {
  Tensor both, first, second;
  Pair() = default;
  Pair(Arena& arena, const Shape& shape, Dtype dtype)
      : both(empty(arena, {2 * shape.numel()}, dtype, Category::communication)),
        first(both.flat(0, shape.numel()).view(shape)),
        second(both.flat(shape.numel(), shape.numel()).view(shape)) {}
};

Tensor as_f32(const Tensor& x) {
  if (x.dtype() == Dtype::f32) return x;
  Tensor y = empty(x.arena(), x.shape(), Dtype::f32, Category::workspace);
  kernels_of(x).elementwise.cast(x.queue(), y, x);
  return y;
}

Tensor as(const Tensor& x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  Tensor y = empty(x.arena(), x.shape(), dtype, Category::activations);
  kernels_of(x).elementwise.cast(x.queue(), y, x);
  return y;
}

void accumulate(Tensor& sum, const Tensor& x) {
  kernels_of(sum).elementwise.accumulate(sum.queue(), sum, as_f32(x));
}

// One rank's view of the ring.
class Ring {
 public:
  Ring(const RingPlan& plan, const Tensor& like, const Tensor& document_starts, const Tensor& document_ends)
      : plan_(plan),
        arena_(like.arena()),
        document_starts_(document_starts),
        document_ends_(document_ends),
        rank_(plan.group->rank()),
        ranks_(plan.group->size()) {}

  int ranks() const { return ranks_; }
  int source(int step) const { return (rank_ - step + ranks_) % ranks_; }  // the rank whose keys are here
  const std::vector<TokenRun>& runs(int rank) const { return plan_.runs[static_cast<size_t>(rank)]; }

  Shape shape_of(int rank, const Tensor& like) const {
    return {like.dim(0), token_count(runs(rank)), like.dim(2), like.dim(3)};
  }
  Work send(const Tensor& x, const char* name) {
    return plan_.group->send(x.raw(), x.numel(), wire(x), (rank_ + 1) % ranks_, name);
  }
  Work receive(const Tensor& x, const char* name) {
    return plan_.group->recv(x.raw(), x.numel(), wire(x), (rank_ + ranks_ - 1) % ranks_, name);
  }

  // Which of the own queries attend to which keys of a rank. What the part points to is kept in `kept`.
  struct Kept {
    Tensor first_keys, end_keys;
    std::shared_ptr<const AttentionMask> mask;
  };
  AttentionPart part(int from, const Tensor& q, const HeadMasks& masks, Kept& kept) const {
    AttentionPart part{.causal = masks.causal && from == rank_};
    const bool before = masks.causal && from < rank_, after = masks.causal && from > rank_;
    if (before) part.keys = runs(from)[0].count;
    if (after) part.first_query = runs(rank_)[0].count;
    kept.mask = masks.of({.positions = {.queries = positions(rank_, after ? 1 : 0, 2),
                                        .keys = positions(from, 0, before ? 1 : 2)},
                          .length = length(),
                          .heads = q.dim(2)});
    part.mask = kept.mask.get();
    if (!document_starts_.defined()) return part;
    kept.first_keys = tokens_before(from, document_starts_, q.dim(0), q.dim(1));
    part.first_keys = &kept.first_keys;
    if (masks.causal || !document_ends_.defined()) return part;
    kept.end_keys = tokens_before(from, document_ends_, q.dim(0), q.dim(1));
    part.end_keys = &kept.end_keys;
    return part;
  }
  // Whether the kernel writes all rows of its results.
  static bool is_whole(const AttentionPart& part) { return part.first_query == 0 && part.keys < 0; }

 private:
  std::vector<PositionRun> positions(int rank, size_t first_run, size_t end_run) const {
    std::vector<PositionRun> positions;
    for (size_t run = first_run; run < end_run; ++run)
      positions.push_back({runs(rank)[run].first, runs(rank)[run].count});
    return positions;
  }
  int64_t length() const {
    int64_t length = 0;
    for (const auto& runs : plan_.runs) length += token_count(runs);
    return length;
  }

  // Groups have no f16; its bits are sent as bf16.
  static Dtype wire(const Tensor& x) { return x.dtype() == Dtype::f16 ? Dtype::bf16 : x.dtype(); }

  // For each own token: how many tokens of the other rank lie before the position that `bounds` [B,length] has for it.
  Tensor tokens_before(int from, const Tensor& bounds, int64_t batch, int64_t tokens) const {
    Tensor rows = empty(arena_, {batch, tokens}, Dtype::i32, Category::workspace);
    if (arena_.queue().device() == Device::null) return rows;
    const int64_t length = bounds.dim(1);
    for (int64_t b = 0; b < batch; ++b) {
      int32_t* row = rows.data<int32_t>() + b * tokens;
      for (const TokenRun& run : runs(rank_))
        for (int64_t position = run.first; position < run.first + run.count; ++position)
          *row++ = tokens_before(from, bounds.data<int32_t>()[b * length + position]);
    }
    return rows;
  }
  int32_t tokens_before(int from, int64_t position) const {
    int64_t count = 0;
    for (const TokenRun& run : runs(from)) count += std::clamp<int64_t>(position - run.first, 0, run.count);
    return static_cast<int32_t>(count);
  }

  const RingPlan& plan_;
  Arena& arena_;
  Tensor document_starts_, document_ends_;
  int rank_, ranks_;
};

struct RingAttention {
  struct Saved {
    Tensor q, k, v, o, lse, document_starts, document_ends;
    float scale;
    const RingPlan* plan;
    HeadMasks masks;
  };

  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& q, const Tensor& k,
                        const Tensor& v, const RingPlan* plan, const HeadMasks& masks) {
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(q.dim(-1))));
    Ring ring(*plan, q, context.document_starts, context.document_ends);
    const Shape statistics{q.dim(0), q.dim(2), q.dim(1)};
    Tensor own = empty_like(q), lse = empty(q.arena(), statistics, Dtype::f32, Category::activations);
    Tensor sum;
    Ring::Kept kept;
    Pair here(q.arena(), k.shape(), k.dtype()), next;
    copy(here.first, k);
    copy(here.second, v);
    for (int step = 0; step < ring.ranks(); ++step) {
      Work sent, received;
      if (step + 1 < ring.ranks()) {
        next = Pair(q.arena(), ring.shape_of(ring.source(step + 1), k), k.dtype());
        sent = ring.send(here.both, "ring keys and values");
        received = ring.receive(next.both, "ring keys and values");
      }
      const AttentionPart part = ring.part(ring.source(step), q, masks, kept);
      if (step == 0) {
        kernels_of(q).attention.forward(q.queue(), own, lse, q, k, v, scale, part);
        sum = as_f32(own);
      } else {
        Tensor o = empty_like(q, Category::workspace);
        Tensor o_lse = empty(q.arena(), statistics, Dtype::f32, Category::workspace);
        kernels_of(q).attention.forward(q.queue(), o, o_lse, q, here.first, here.second, scale, part);
        kernels_of(q).attention.merge(q.queue(), sum, lse, o, o_lse, part.first_query,
                                      q.dim(1) - part.first_query);
      }
      sent.wait(q.queue());
      received.wait(q.queue());
      here = std::exchange(next, {});
    }
    Tensor o = as(sum, q.dtype());
    saved = {q, k, v, o, lse, context.document_starts, context.document_ends, scale, plan, masks};
    return o;
  }

  static std::array<Tensor, 3> backward_input(const Saved& saved, const Tensor& dy) {
    const auto& [q, k, v, o, lse, document_starts, document_ends, scale, plan, masks] = saved;
    Ring ring(*plan, q, document_starts, document_ends);
    Tensor dq_sum;
    Ring::Kept kept;
    Pair here(q.arena(), k.shape(), k.dtype()), next, sums, incoming, outgoing;
    copy(here.first, k);
    copy(here.second, v);
    Work sums_sent, sums_received;
    for (int step = 0; step < ring.ranks(); ++step) {
      Work sent, received;
      if (step + 1 < ring.ranks()) {
        next = Pair(q.arena(), ring.shape_of(ring.source(step + 1), k), k.dtype());
        sent = ring.send(here.both, "ring keys and values");
        received = ring.receive(next.both, "ring keys and values");
      }
      Tensor dq = empty_like(q, Category::workspace), dk = empty_like(here.first, Category::workspace);
      Tensor dv = empty_like(here.first, Category::workspace);
      const AttentionPart part = ring.part(ring.source(step), q, masks, kept);
      if (!Ring::is_whole(part))  // zero the rows that the kernel does not write
        for (Tensor* x : {&dq, &dk, &dv}) fill_zero(*x);
      kernels_of(q).attention.backward(q.queue(), dq, dk, dv, dy, o, lse, q, here.first, here.second, scale,
                                       part);
      if (step == 0) {
        dq_sum = as_f32(dq);
        sums = Pair(q.arena(), k.shape(), Dtype::f32);
        copy(sums.first, as_f32(dk));
        copy(sums.second, as_f32(dv));
      } else {
        accumulate(dq_sum, dq);
        sums_sent.wait(q.queue());
        sums_received.wait(q.queue());
        sums = std::exchange(incoming, {});
        accumulate(sums.first, dk);
        accumulate(sums.second, dv);
      }
      if (ring.ranks() > 1) {
        // Sends the gradient sums of these keys on and receives those of the next keys; after the last step its own.
        incoming = Pair(q.arena(), ring.shape_of(ring.source(step + 1), k), Dtype::f32);
        outgoing = std::exchange(sums, {});
        sums_sent = ring.send(outgoing.both, "ring gradients");
        sums_received = ring.receive(incoming.both, "ring gradients");
      }
      sent.wait(q.queue());
      received.wait(q.queue());
      here = std::exchange(next, {});
    }
    sums_sent.wait(q.queue());
    sums_received.wait(q.queue());
    const Pair& own = ring.ranks() > 1 ? incoming : sums;
    return {as(dq_sum, q.dtype()), as(own.first, k.dtype()), as(own.second, v.dtype())};
  }
};

}  // namespace

Var ring_attention(const Var& q, const Var& k, const Var& v, const RingPlan& plan, const HeadMasks& masks) {
  return apply<RingAttention>(*q.tape, q, k, v, &plan, masks);
}

}  // namespace athanor::parallel::context
