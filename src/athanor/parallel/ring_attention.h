// Attention over sequences that lie in parts on the ranks of a group, by a ring (Liu et al., "Ring attention with
// blockwise transformers", 2023): keys and values travel from rank to rank while each attends with its own queries to
// those that it has, and merges what it gets by log-sum-exp.
//
// The balanced split (Brandon et al., "Striped attention", 2023; here in chunks): of 2N chunks of a sequence rank r has
// r and 2N-1-r, so all ranks attend to as many pairs. Then of the parts of earlier ranks every query sees the first
// chunk, and nobody the second; those of later ranks are seen by the queries of the second chunk alone, whole; its own
// part is causal as it lies.
//
//   const RingPlan plan{.group = &group, .runs = all_ranks_runs};
//   Var o = ring_attention(q, k, v, plan);            // q, o [B,S,H,D], k, v [B,S,K,D]: this rank's tokens
//
// Own part first, then those that arrive: r-1, r-2, ... Gradients of keys and values travel on, summed in f32, and come
// home from the rank before; each message is started before the products that it is to be hidden under. The backward
// pass computes every pair with the o and lse of the whole. Documents (PassContext::document_starts) are respected.
// On the null device nothing moves. Errors: those of the group. Every rank of the group runs the same operations in the
// same order. Thread rule: that of the Tape.
#pragma once

#include <vector>

#include "athanor/autograd/sequence_part.h"
#include "athanor/comm/group.h"

namespace athanor {

struct RingPlan {
  Group* group = nullptr;
  std::vector<std::vector<TokenRun>> runs = {};  // of each rank: two, ascending
};

Var ring_attention(const Var& q, const Var& k, const Var& v,
                   const RingPlan& plan);  // the plan outlives the pass

// What rank `rank` puts on the wire for the attention of one layer to B sequences of S tokens in all, K heads of keys of
// D elements of e bytes: 2 B K D e (S - part of the next rank) forward; backward the same and 2 B K D 4 S.
struct RingBytes {
  int64_t forward = 0, backward = 0;
};
RingBytes ring_bytes(const RingPlan& plan, int rank, int64_t batch, int64_t kv_heads, int64_t head_dim,
                     int64_t element_bytes);

}  // namespace athanor
