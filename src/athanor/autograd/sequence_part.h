// The part of its sequences that a pass has, where several ranks share them (context parallelism). Operations that
// look beyond one token ask for it: the positions of tokens, the addresses of their random numbers, attention.
//
//   const SequencePart part = {.length = 11, .runs = {{0, 3}, {8, 3}}, .attention = ring};
//   Tape tape({.num_sequences = 2, .seq_len = 6, .part = &part});    // tokens 0 1 2 8 9 10 of two sequences
//
// Thread rule: const while passes use it; it outlives them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "athanor/autograd/tape.h"

namespace athanor {

// Positions [first, first + count) of a sequence.
struct TokenRun {
  int64_t first = 0, count = 0;
  bool operator==(const TokenRun&) const = default;
};
int64_t token_count(const std::vector<TokenRun>& runs);

struct SequencePart {
  int64_t length = 0;          // of a whole sequence
  std::vector<TokenRun> runs;  // the tokens that this pass has of each, ascending, one after the other
  // q [B,S,H,D], k, v [B,S,K,D] of the pass -> [B,S,H,D]: over the keys of the whole sequences.
  std::function<Var(const Var& q, const Var& k, const Var& v)> attention = {};
  // values [B*S,K] of the pass, dealt over ranks alike -> [B*length,K] of the whole sequences, in their order. A
  // collective of the ranks that share them; not called on the null device.
  std::function<std::vector<int32_t>(std::span<const int32_t> values, int64_t num_sequences)> of_all = {};
  int64_t most = 0;  // the most tokens of a sequence that a rank has

  int64_t count() const { return token_count(runs); }  // S: tokens of the pass in a sequence
};

// visit(row, place, count): `count` tokens of the pass from its row `row` (of [B*S]) on are the places from `place` on
// of the whole sequences ([B*length]). For all rows in [first, last), ascending; rows past the last token are left out.
void walk_tokens(const SequencePart& part, int64_t first, int64_t last, int64_t num_sequences,
                 const std::function<void(int64_t row, int64_t place, int64_t count)>& visit);

// Rows [P,C] of a table at the positions of the pass: [S,C], a copy.
Tensor rows_at(const SequencePart& part, const Tensor& table);

}  // namespace athanor
