// The differentiable operations, as functions on Vars. Each lives in a file of its own with its formulas,
// shapes and what it saves for the backward pass. Shape letters: docs/glossary.md.
//
//   Var y = linear(rms_norm(x, norm, eps), weight, nullptr);
//
// Activations are f32, bf16 or f16 ("T"), gradients of weights f32. Errors name the operation and the shapes.
// Thread rule: one thread per Tape.
#pragma once

#include <functional>

#include "athanor/autograd/tape.h"

namespace athanor {

// A pass may have but a part of its sequences (autograd/sequence_part.h): positions, here counted from first_position
// on, and random numbers are then those of the whole.

// Operations read how their weights are cut (Param::part). A linear whose weight is cut along I and an
// embedding whose table is cut by rows give this rank's addend of the result; bias and positions are in that
// of the first rank.

// ids [B,S] i32, table [V,C], positions [P,C] or null -> [B,S,C] = table[ids] + positions[first_position + s]
Var embedding(Tape& tape, const Tensor& ids, Weight& table, Weight* positions, int64_t first_position);

// x [..., I], weight [O,I], bias [O] or null -> [..., O] = x . weight^T + bias
Var linear(const Var& x, Weight& weight, Weight* bias);

// The same product, made row by row as somebody else wants it (parallel/overlapped_linear.h): make(shape, rows) gets the
// shape [..., O] and gives the value of the result, whatever that is; rows(y, first) writes y [n,O], the product of the
// flattened rows first, first + 1, ... of x. The gradient that comes back is that of the product, [..., O].
using LinearRows = std::function<void(Tensor& y, int64_t first)>;
using MakeOfRows = std::function<Tensor(const Shape& shape, const LinearRows& rows)>;
Var linear_in_pieces(const Var& x, Weight& weight, Weight* bias, const MakeOfRows& make);

// h [..., O] -> the bits of add(h, linear(x, weight, bias)), with a pass over memory less
Var linear_add(const Var& h, const Var& x, Weight& weight, Weight* bias);

// x [B,S,I], weight [H*D,I], cos and sin [P,D/2] f32 -> [B,S,H,D]: the product, row s rotated to position
// first_position + s (kernels/rope.h)
Var linear_rope(const Var& x, Weight& weight, Weight* bias, int64_t head_dim, const Tensor& cos,
                const Tensor& sin, int64_t first_position);

// x [..., C], weight [C] -> [..., C]
Var rms_norm(const Var& x, Weight& weight, float eps);

// x [..., C], weight [C], bias [C] or null -> [..., C]
Var layer_norm(const Var& x, Weight& weight, Weight* bias, float eps);

// q [B,S,H,D], k and v [B,S',K,D] -> [B,S,H,D], causal, scaled by 1/sqrt(D); within documents where the pass has
// document_starts. The first over the whole sequences of which the pass has a part (autograd/sequence_part.h), the
// second where they all lie here.
Var attention(const Var& q, const Var& k, const Var& v);
Var whole_attention(const Var& q, const Var& k, const Var& v);

// gate, up [..., F] -> silu(gate) * up
Var swiglu(const Var& gate, const Var& up);

// x [..., F] -> gelu(x), tanh form
Var gelu(const Var& x);

// x [B, ...] -> x with elements dropped at rate p by the stream's address; the identity outside training. Of
// tokens that are dealt out over ranks, x [n,C] is part `rank` of the pass's [B*S,C]
// (parallel/collective_ops.h).
struct TokenPart {
  int rank = 0, size = 1;
};
Var dropout(const Var& x, float p, uint64_t stream_key, TokenPart part = {});

// a + b, one shape
Var add(const Var& a, const Var& b);

// x with another shape of as many elements, same memory
Var view(const Var& x, const Shape& shape);

// The loss of a language model: logits = x . head^T over the first `classes` rows of the head, softmax and
// cross-entropy, in chunks of tokens: the [tokens, V] logits never exist whole.
// x [..., C], head [V,C], targets [...] i32 (negative: ignored) -> per-token loss [N] f32, not averaged.
// Its gradient is that of the sum of all losses times the pass's loss_scale.
// Of a head that is cut by rows `combine` turns the statistics [n,3] of this rank's classes
// (kernels/cross_entropy.h) into those of all; dx is then this rank's addend.
using CombineStatistics = std::function<void(Tensor& statistics)>;
Var linear_cross_entropy(const Var& x, Weight& head, const Tensor& targets, int64_t classes,
                         const CombineStatistics& combine = {});

}  // namespace athanor
