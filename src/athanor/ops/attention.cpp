#include <cmath>

#include "athanor/autograd/apply.h"
#include "athanor/autograd/sequence_part.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor::ops {
namespace {

// o = softmax(q k^T / sqrt(D), causal) v, in tiles (kernels/attention.h has the formulas of the backward pass)
// q, o [B,S,H,D];  k, v [B,S',K,D];  lse [B,H,S] f32;  document_starts [B,S] i32, if the pass has them
struct Attention {
  static constexpr bool kCheapToRecompute = true;
  struct Saved {
    Tensor q, k, v, o, lse, document_starts;
    float scale;
    std::shared_ptr<const AttentionMask> mask;
    AttentionPart part() const {
      return {.first_keys = document_starts.defined() ? &document_starts : nullptr, .mask = mask.get()};
    }
  };

  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& q, const Tensor& k,
                        const Tensor& v, const HeadMasks& masks) {
    check(!context.document_starts.defined() || q.dim(1) == k.dim(1),
          "attention: got {} queries and {} keys, expected equally many with a document mask", q.dim(1),
          k.dim(1));
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(q.dim(-1))));
    Tensor o = empty_like(q);
    Tensor lse = empty(q.arena(), {q.dim(0), q.dim(2), q.dim(1)}, Dtype::f32, Category::activations);
    const int64_t queries = q.dim(1), keys = k.dim(1);  // the queries are the last positions
    saved = {q,
             k,
             v,
             o,
             lse,
             context.document_starts,
             scale,
             masks.of({.positions = {.queries = {{keys - queries, queries}}, .keys = {{0, keys}}},
                       .length = keys,
                       .heads = q.dim(2)})};
    kernels_of(q).attention.forward(q.queue(), o, lse, q, k, v, scale, saved.part());
    return o;
  }
  static std::array<Tensor, 3> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dq = empty_like(saved.q), dk = empty_like(saved.k), dv = empty_like(saved.v);
    kernels_of(dy).attention.backward(dy.queue(), dq, dk, dv, dy, saved.o, saved.lse, saved.q, saved.k,
                                      saved.v, saved.scale, saved.part());
    return {dq, dk, dv};
  }
};

}  // namespace

Var attention(const Var& q, const Var& k, const Var& v, const HeadMasks& masks) {
  const SequencePart* part = q.tape->context().part;
  return part == nullptr ? whole_attention(q, k, v, masks) : part->attention(q, k, v, masks);
}

Var whole_attention(const Var& q, const Var& k, const Var& v, const HeadMasks& masks) {
  return apply<Attention>(*q.tape, q, k, v, masks);
}

}  // namespace athanor::ops
