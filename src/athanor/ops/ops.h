// The differentiable operations, as functions on Vars. Each has a file of its own with its formulas, its shapes and
// what it saves for the backward pass. Shape letters: docs/glossary.md.
//
//   Var y = linear(rms_norm(x, norm, eps), weight, nullptr);
//
// Activations are f32, bf16 or f16 ("T"), gradients of weights f32. Errors name the operation and the shapes.
// Thread rule: one thread per Tape.
#pragma once

#include <functional>

#include "athanor/autograd/tape.h"
#include "athanor/kernels/gelu.h"
#include "athanor/masks/layer_mask.h"

namespace athanor::ops {

// Context parallelism: where a pass has only a part of each sequence (autograd/sequence_part.h), positions and
// random-number addresses are those in the full sequence. Otherwise positions count from first_position.

// Tensor parallelism: operations read how their weights are partitioned (Param::part). A linear whose weight is
// partitioned along I, and an embedding whose table is partitioned by rows, return a partial result of this rank. The
// first rank's partial result includes bias and positions.

// ids [B,S] i32, table [V,C], positions [P,C] or null -> [B,S,C] = table[ids] + positions[first_position + s]
Var embedding(Tape& tape, const Tensor& ids, Weight& table, Weight* positions, int64_t first_position);
// The same plus kinds[kind_of[b,s]]: kinds [N,C], kind_of [B,S] i32 (BERT's token types); kind_of undefined: all 0.
Var embedding(Tape& tape, const Tensor& ids, Weight& table, Weight* positions, int64_t first_position,
              Weight& kinds, const Tensor& kind_of);

// x [..., I], weight [O,I], bias [O] or null -> [..., O] = x . weight^T + bias
Var linear(const Var& x, Weight& weight, Weight* bias);

// The same product in pieces chosen by the caller, to overlap it with communication
// (parallel/tensor/overlapped_linear.h). make(shape, rows) gets the shape [..., O] and returns the value of the result,
// for which it calls rows(y, first): writes y [n,O], the product of rows first, first + 1, ... of the flattened x. The
// incoming gradient is that of the product, [..., O].
using LinearRows = std::function<void(Tensor& y, int64_t first)>;
using MakeOfRows = std::function<Tensor(const Shape& shape, const LinearRows& rows)>;
Var linear_in_pieces(const Var& x, Weight& weight, Weight* bias, const MakeOfRows& make);

// h [..., O] -> add(h, linear(x, weight, bias)), with the same bits and one pass over memory less
Var linear_add(const Var& h, const Var& x, Weight& weight, Weight* bias);

// x [B,S,I], weight [H*D,I], cos and sin [P,D/2] f32 -> [B,S,H,D]: the product, row s rotated to position
// first_position + s (kernels/rope.h)
Var linear_rope(const Var& x, Weight& weight, Weight* bias, int64_t head_dim, const Tensor& cos,
                const Tensor& sin, int64_t first_position);

// x [..., C], weight [C] -> [..., C]
Var rms_norm(const Var& x, Weight& weight, float eps);

// x [..., C], weight [C], bias [C] or null -> [..., C]
Var layer_norm(const Var& x, Weight& weight, Weight* bias, float eps);

// q [B,S,H,D], k and v [B,S',K,D] -> [B,S,H,D], causal unless `masks` says otherwise, scaled by 1/sqrt(D); within
// documents if the pass has document_starts (and document_ends where it is not causal). attention() also works under context parallelism, over the keys of the full sequences
// (SequencePart::attention); whole_attention() always uses the given keys only.
//
// Terms of scores (kernels/attention_scores.h), v then [B,S',K,E] and the result [B,S,H,E]. Context parallelism refuses
// them by name.
struct AttentionTerms {
  float scale = 0;                    // of q.k; 0: 1/sqrt(D)
  float softcap = 0;                  // 0: none
  Weight* bias = nullptr;             // [H, buckets], learned
  Tensor fixed_bias = {};             // [H, buckets] f32, the same without a gradient (ALiBi); one of both
  Tensor bucket_of = {};              // [2n - 1] i32, by distance; undefined: one bucket for each distance
  Weight* sinks = nullptr;            // [H]
  float dropout = 0;                  // of probabilities, where the pass has dropout
  uint64_t dropout_stream = 0;        // RandomStream::key
  int64_t first_head = 0, heads = 0;  // dropout's: those of this rank, and all of the layer; 0: these are all

  bool any() const {
    return scale != 0 || softcap != 0 || bias != nullptr || fixed_bias.defined() || sinks != nullptr ||
           dropout != 0;
  }
};
Var attention(const Var& q, const Var& k, const Var& v, const HeadMasks& masks = {},
              const AttentionTerms& terms = {});
Var whole_attention(const Var& q, const Var& k, const Var& v, const HeadMasks& masks = {},
                    const AttentionTerms& terms = {});

// gate, up [..., F] -> silu(gate) * up
Var swiglu(const Var& gate, const Var& up);

// x [..., F] -> gelu(x) (kernels/gelu.h)
Var gelu(const Var& x, GeluForm form = GeluForm::tanh);

// x [B, ...] -> x with elements dropped at rate p, chosen by random-number address; the identity outside training. With
// sequence parallelism, x [n,C] is part `rank` of `size` of the pass's [B*S,C] (parallel/tensor/collective_ops.h).
struct TokenPart {
  int rank = 0, size = 1;
};
Var dropout(const Var& x, float p, uint64_t stream_key, TokenPart part = {});

// a + b, one shape
Var add(const Var& a, const Var& b);

// x with another shape of the same number of elements; shares its memory
Var view(const Var& x, const Shape& shape);

// The loss of a language model: logits = x . head^T over the first `classes` rows of the head, softmax and
// cross-entropy, in chunks of tokens: the [tokens, V] logits never exist whole.
// x [..., C], head [V,C], bias [V] or null, targets [...] i32 (negative: ignored) -> per-token loss [N] f32, not averaged.
// Its gradient is that of the sum of all losses times the pass's loss_scale. The gradients of head and bias are added in
// the forward pass; the caller reports them (Weight::grad_ready).
// Vocabulary parallelism: where the head is partitioned by rows, `combine` turns the statistics [n,3] of this rank's
// classes (kernels/cross_entropy.h) into those of all classes (a collective); dx is then partial.
using CombineStatistics = std::function<void(Tensor& statistics)>;
Var linear_cross_entropy(const Var& x, Weight& head, Weight* bias, const Tensor& targets, int64_t classes,
                         const CombineStatistics& combine = {});

}  // namespace athanor::ops
