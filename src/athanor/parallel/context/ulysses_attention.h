// Ulysses attention over sequences that are sharded over the ranks (Jacobs et al., "DeepSpeed Ulysses", 2023): an
// all-to-all turns "all heads of some tokens" into "some heads of all tokens", attention runs as on one device, and
// another all-to-all turns its output back.
//
//   const UlyssesPlan plan{.group = &group, .runs = all_ranks_runs};
//   Var o = ulysses_attention(q, k, v, plan);         // q, o [B,S,H,D], k, v [B,S,K,D]: this rank's tokens
//
// The number of ranks N must divide H. Either N divides K, or K divides N: then each key head goes to the N/K ranks
// that need it, and its gradients are added in the order of the ranks.
//
// A rank with s of the S tokens sends, for B sequences and elements of e bytes, with h = H/N and k = max(K/N, 1):
//   forward    B D e ((N-1) s (h + 2k) + (S-s) h),   backward    B D e ((S-s) (h + 2k) + (N-1) s h)   bytes
//
// Errors: Error naming heads that do not divide;
// those of the group. On the null device nothing moves. Thread rule: that of the Tape.
#pragma once

#include <vector>

#include "athanor/autograd/sequence_part.h"
#include "athanor/comm/group.h"

namespace athanor::parallel::context {

struct UlyssesPlan {
  Group* group = nullptr;
  std::vector<std::vector<TokenRun>> runs = {};  // of each rank
};

Var ulysses_attention(const Var& q, const Var& k, const Var& v, const UlyssesPlan& plan,
                      const HeadMasks& masks = {});

bool ulysses_divides(int64_t heads, int64_t kv_heads, int64_t ranks);

}  // namespace athanor::parallel::context
