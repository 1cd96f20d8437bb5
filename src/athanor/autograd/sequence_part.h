// Context parallelism on one rank: which tokens of each sequence its pass has, where several ranks partition the
// sequences. Used by the operations that depend on more than one token: positions, random-number addresses, attention.
//
//   const SequencePart part = {.length = 11, .runs = {{0, 3}, {8, 3}}, .attention = ring};
//   Tape tape({.num_sequences = 2, .seq_len = 6, .part = &part});    // tokens 0 1 2 8 9 10 of two sequences
//
// Thread rule: const while passes use it; it must outlive them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "athanor/autograd/tape.h"
#include "athanor/masks/layer_mask.h"

namespace athanor::autograd {

// Positions [first, first + count) of a sequence.
struct TokenRun {
  int64_t first = 0, count = 0;
  bool operator==(const TokenRun&) const = default;
};
int64_t token_count(const std::vector<TokenRun>& runs);

struct SequencePart {
  int64_t length = 0;          // tokens of a full sequence
  std::vector<TokenRun> runs;  // the tokens of each sequence in this pass, ascending, back to back
  // q [B,S,H,D], k, v [B,S,K,D] of the pass -> [B,S,H,D]: attention over the keys of the full sequences.
  std::function<Var(const Var& q, const Var& k, const Var& v, const HeadMasks& masks)> attention = {};
  // All-gather of values [B*S,K] of the pass to [B*length,K] of the full sequences, in token order. A collective of the
  // context-parallel ranks; not called on the null device.
  std::function<std::vector<int32_t>(std::span<const int32_t> values, int64_t num_sequences)> of_all = {};
  int64_t most = 0;  // the most tokens of a sequence on any rank

  int64_t count() const { return token_count(runs); }  // S: tokens of a sequence in the pass
};

// Maps rows of the pass [B*S] to rows of the full sequences [B*length]: calls visit(row, place, count) for each run of
// `count` tokens from `row` of the pass, which start at `place` of the full sequences. Covers rows [first, last) in
// ascending order; rows past the last token (padding) are skipped.
void walk_tokens(const SequencePart& part, int64_t first, int64_t last, int64_t num_sequences,
                 const std::function<void(int64_t row, int64_t place, int64_t count)>& visit);

// The rows of table [P,C] at the positions of the pass: [S,C], a copy.
Tensor rows_at(const SequencePart& part, const Tensor& table);

}  // namespace athanor::autograd
