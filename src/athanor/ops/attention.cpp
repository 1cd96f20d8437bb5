#include <cmath>
#include <utility>

#include "athanor/autograd/apply.h"
#include "athanor/autograd/sequence_part.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor::ops {
namespace {

// The value of a weight in f32, which terms of scores have in any precision.
Tensor in_f32(const Weight& weight) {
  const Tensor& value = weight.value();
  if (value.dtype() == Dtype::f32) return value;
  Tensor wide = empty(value.arena(), value.shape(), Dtype::f32, Category::workspace);
  kernels_of(value).elementwise.cast(value.queue(), wide, value);
  return wide;
}

// o = softmax(q k^T / sqrt(D)) v, causal or not, in tiles (kernels/attention.h has the formulas of the backward pass)
// q [B,S,H,D], o [B,S,H,E];  k [B,S',K,D], v [B,S',K,E];  lse [B,H,S] f32;  document_starts, document_ends [B,S] i32, if
// the pass has them
// The gradient of a bias comes with those of q, k and v: whichever part of the backward pass is first computes all and
// keeps the other part's.
struct Attention {
  static constexpr bool kCheapToRecompute = true;
  struct Gradients {
    Tensor dq, dk, dv, d_bias;
  };
  struct Saved {
    Tensor q, k, v, o, lse, document_starts, document_ends;
    float scale;
    bool causal;
    std::shared_ptr<const AttentionMask> mask;
    AttentionTerms terms;
    kernels::AttentionDropout dropout;
    MaskPositions positions;
    std::shared_ptr<Gradients> kept;
    AttentionPart part(const kernels::AttentionScores* scores) const {
      return {.causal = causal,
              .first_keys = document_starts.defined() ? &document_starts : nullptr,
              .end_keys = document_ends.defined() && !causal ? &document_ends : nullptr,
              .mask = mask.get(),
              .scores = scores};
    }
    bool has_scores() const {
      return terms.softcap != 0 || terms.bias != nullptr || terms.fixed_bias.defined() || dropout.rate != 0;
    }
    // `bias` is memory for the table.
    kernels::AttentionScores scores(Tensor& bias) const {
      bias = terms.bias != nullptr ? in_f32(*terms.bias) : terms.fixed_bias;
      return {.softcap = terms.softcap,
              .bias = bias.defined() ? &bias : nullptr,
              .bucket_of = terms.bucket_of.defined() ? &terms.bucket_of : nullptr,
              .dropout = dropout,
              .positions = positions};
    }
  };

  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& q, const Tensor& k,
                        const Tensor& v, const HeadMasks& masks, const AttentionTerms& terms, Weight*,
                        Weight*) {
    check(!context.document_starts.defined() || q.dim(1) == k.dim(1),
          "attention: got {} queries and {} keys, expected equally many with a document mask", q.dim(1),
          k.dim(1));
    check(terms.bias == nullptr || !terms.fixed_bias.defined(),
          "attention: got a learned bias and a fixed one, expected one of them");
    const auto scale =
        terms.scale != 0 ? terms.scale : static_cast<float>(1.0 / std::sqrt(static_cast<double>(q.dim(-1))));
    Tensor o = empty(q.arena(), {q.dim(0), q.dim(1), q.dim(2), v.dim(-1)}, q.dtype(), Category::activations);
    Tensor lse = empty(q.arena(), {q.dim(0), q.dim(2), q.dim(1)}, Dtype::f32, Category::activations);
    const int64_t queries = q.dim(1), keys = k.dim(1);  // the queries are the last positions
    saved = {.q = q,
             .k = k,
             .v = v,
             .o = o,
             .lse = lse,
             .document_starts = context.document_starts,
             .document_ends = context.document_ends,
             .scale = scale,
             .causal = masks.causal,
             .mask = masks.of({.positions = {.queries = {{keys - queries, queries}}, .keys = {{0, keys}}},
                               .length = keys,
                               .heads = q.dim(2)}),
             .terms = terms,
             .dropout = {},
             .positions = {},
             .kept = std::make_shared<Gradients>()};
    if (terms.dropout != 0 && context.dropout)
      saved.dropout = {.rate = terms.dropout,
                       .key = terms.dropout_stream,
                       .step = context.step,
                       .first_sequence = context.first_sequence,
                       .first_head = terms.first_head,
                       .heads = terms.heads == 0 ? q.dim(2) : terms.heads,
                       .whole_queries = keys,
                       .whole_keys = keys};
    Tensor bias;
    const kernels::AttentionScores scores = saved.scores(bias);
    const AttentionPart part = saved.part(saved.has_scores() ? &scores : nullptr);
    kernels_of(q).attention.forward(q.queue(), o, lse, q, k, v, scale, part);
    if (terms.sinks != nullptr) kernels_of(q).attention.add_sinks(q.queue(), o, lse, in_f32(*terms.sinks));
    return o;
  }
  static std::array<Tensor, 3> backward_input(const Saved& saved, const Tensor& dy) {
    Gradients all = std::exchange(*saved.kept, {});
    if (!all.dq.defined()) all = gradients(saved, dy);
    saved.kept->d_bias = all.d_bias;
    return {all.dq, all.dk, all.dv};
  }
  static Gradients gradients(const Saved& saved, const Tensor& dy) {
    Gradients all{empty_like(saved.q), empty_like(saved.k), empty_like(saved.v), {}};
    Tensor bias;
    kernels::AttentionScores scores = saved.scores(bias);
    if (saved.terms.bias != nullptr) {
      all.d_bias = zeros(dy.arena(), bias.shape(), Dtype::f32, Category::workspace);
      scores.d_bias = &all.d_bias;
    }
    const AttentionPart part = saved.part(saved.has_scores() ? &scores : nullptr);
    kernels_of(dy).attention.backward(dy.queue(), all.dq, all.dk, all.dv, dy, saved.o, saved.lse, saved.q,
                                      saved.k, saved.v, saved.scale, part);
    return all;
  }
  static void backward_weight(const Saved& saved, const Tensor& dy) {
    const AttentionTerms& terms = saved.terms;
    if (terms.bias != nullptr) {
      if (!saved.kept->d_bias.defined()) *saved.kept = gradients(saved, dy);
      const Tensor d_bias = std::exchange(saved.kept->d_bias, {});
      kernels_of(dy).elementwise.accumulate(dy.queue(), terms.bias->grad(), d_bias);
    }
    if (terms.sinks != nullptr)
      kernels_of(dy).attention.sinks_backward(dy.queue(), terms.sinks->grad(), dy, saved.o, saved.lse,
                                              in_f32(*terms.sinks));
  }
};

}  // namespace

Var attention(const Var& q, const Var& k, const Var& v, const HeadMasks& masks, const AttentionTerms& terms) {
  const SequencePart* part = q.tape->context().part;
  if (part == nullptr) return whole_attention(q, k, v, masks, terms);
  check(!terms.any() && q.value.dim(-1) == v.value.dim(-1),
        "attention: got terms of scores or values of another width under context parallelism, expected "
        "neither: "
        "its kernels do not have them");
  return part->attention(q, k, v, masks);
}

Var whole_attention(const Var& q, const Var& k, const Var& v, const HeadMasks& masks,
                    const AttentionTerms& terms) {
  return apply<Attention>(*q.tape, q, k, v, masks, terms, terms.bias, terms.sinks);
}

}  // namespace athanor::ops
