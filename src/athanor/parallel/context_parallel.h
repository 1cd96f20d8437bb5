// Context parallelism: the ranks of axis cp share the tokens of each sequence. All but attention and the
// routers of experts works on tokens one by one and sees nothing of it; attention runs as a ring or by heads, and routers
// know the choices of all tokens of a grain.
//
//   const ContextParallel context(ContextKind::ring, seq_len, cp_group);
//   const std::vector<int32_t> ids = context.take(batch.tokens, batch.num_sequences);        // [B,T] -> [B,S]
//   Tape tape({..., .seq_len = context.seq_len(), .part = &context.part(), .document_starts = whole});
//   tape.backward(model.loss(tape, ids, targets, recompute));          // losses of this rank's tokens
//
// Positions (rotations, learned positions) and the addresses of random numbers are those of the whole sequences. A
// loss is a sum over tokens: the ranks' losses and gradients add up to those of one process, within rounding; data
// parallelism adds them, to whom they are ranks with tokens of their own (data_parallel.h, `parts`). Sequences
// need not divide: parts differ by a token or two.
//
//   ring      rank r has chunks r and 2N-1-r of 2N (parallel/ring_attention.h); any number of heads
//   ulysses   rank r has part r of N (parallel/ulysses_attention.h); heads divide
//
// Errors: Error for sequences of fewer tokens than parts. Thread rule: const; one thread for what is collective.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "athanor/parallel/ring_attention.h"
#include "athanor/parallel/ulysses_attention.h"

namespace athanor {

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

}  // namespace athanor
