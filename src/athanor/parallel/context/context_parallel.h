// Context parallelism: the ranks of axis cp split the tokens of each sequence. Only attention (ring or all-to-all) and
// the routers of experts, which use the choices of all tokens of a micro-batch, communicate; all else works token by
// token.
//
//   const ContextParallel context(ContextKind::ring, seq_len, cp_group);
//   const std::vector<int32_t> ids = context.take(batch.tokens, batch.num_sequences);        // [B,T] -> [B,S]
//   Tape tape({.seq_len = context.seq_len(), .part = &context.part(), .document_starts = whole});
//   tape.backward(model.loss(tape, {.ids = ids, .targets = targets}, recompute));     // losses of this rank's tokens
//
//   ring      rank r has chunks r and 2N-1-r of 2N (ring_attention.h); any number of heads
//   ulysses   rank r has part r of N (ulysses_attention.h); heads must divide
//
// Positions (rotary and learned) and the addresses of random numbers are those of the whole sequences. A loss is a sum
// over tokens, so the ranks' losses and gradients add up to those of one process, within rounding. Data parallelism
// adds them: there these ranks are ordinary ranks with tokens of their own (data_parallel.h, `parts`). Sequence lengths
// need not divide: parts differ by a token or two.
// Errors: Error for sequences of fewer tokens than parts. Thread rule: const; one thread for collective calls.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "athanor/parallel/context/ring_attention.h"
#include "athanor/parallel/context/ulysses_attention.h"

namespace athanor::parallel::context {

enum class ContextKind { ring, ulysses };
ContextKind parse_context_kind(const std::string& name);

// The tokens of rank `rank` of `ranks`, ascending.
std::vector<TokenRun> tokens_of_rank(ContextKind kind, int64_t seq_len, int rank, int ranks);

class ContextParallel {
 public:
  ContextParallel(ContextKind kind, int64_t seq_len, Group& group);  // the group outlives it
  ContextParallel(const ContextParallel&) = delete;
  ContextParallel& operator=(const ContextParallel&) = delete;

  const SequencePart& part() const { return part_; }
  int64_t seq_len() const { return part_.count(); }
  Group& group() const { return *ring_.group; }
  // This rank's tokens of [num_sequences, length] values, in the order of the sequences.
  std::vector<int32_t> take(std::span<const int32_t> values, int64_t num_sequences) const;

 private:
  std::vector<int32_t> gather(std::span<const int32_t> values, int64_t num_sequences) const;

  RingPlan ring_;
  UlyssesPlan ulysses_;
  SequencePart part_;
};

}  // namespace athanor::parallel::context
