// Ring attention over sequences that are sharded over the ranks (Liu et al., "Ring attention with blockwise
// transformers", 2023): keys and values go round a ring of ranks. Each rank attends with its own queries to the keys
// and values that it has, and merges the partial outputs by log-sum-exp.
//
//   const RingPlan plan{.group = &group, .runs = all_ranks_runs};
//   Var o = ring_attention(q, k, v, plan);            // q, o [B,S,H,D], k, v [B,S,K,D]: this rank's tokens
//
// Balanced (zigzag) split, after Brandon et al., "Striped attention", 2023, in chunks: of 2N chunks of a sequence rank
// r has chunks r and 2N-1-r, so all ranks attend to equally many pairs. Which keys a query attends to:
//   keys of an earlier rank   all queries: its first chunk only
//   keys of a later rank      queries of the second chunk: both chunks; queries of the first chunk: none
//   own keys                  causal, in the order in which the tokens lie
//
// A rank begins with its own keys, then receives those of r-1, r-2, ... Gradients of keys and values go round with
// them, summed in f32, and return to their owner. Each message is started before the products that hide it. The
// backward pass uses o and log-sum-exp of the full attention. Documents (PassContext::document_starts) are respected.
// A rank sends, for B sequences of S tokens in all and elements of e bytes, 2 B K D e (S - tokens of the next rank) bytes
// forward; backward the same plus 2 B K D 4 S.
//
// On the null device nothing moves. Errors: those of the group. Every rank of the group runs the same operations in the
// same order. Thread rule: that of the Tape.
#pragma once

#include <vector>

#include "athanor/autograd/sequence_part.h"
#include "athanor/comm/group.h"

namespace athanor::parallel::context {

struct RingPlan {
  Group* group = nullptr;
  std::vector<std::vector<TokenRun>> runs = {};  // by rank: its two chunks, ascending
};

// The plan, and the layer of the masks, outlive the pass.
Var ring_attention(const Var& q, const Var& k, const Var& v, const RingPlan& plan,
                   const HeadMasks& masks = {});

}  // namespace athanor::parallel::context
