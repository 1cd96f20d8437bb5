// Which ranks stand at the same place, and which one does not: a job that hangs mostly waits for one rank.
//
//   const std::vector<StackCluster> clusters = cluster_stacks({{.rank = 0, .stacks = take_stacks(pid, 500)}, ...});
//   say(text_of(clusters));        // "ranks 0, 2, 3: S in athanor::comm::shm::..., called by ...; rank 1: T in ..."
//   if (const auto rank = odd_rank(clusters)) blame(*rank);
//
// Compared are the main threads: their state, where that is stopped, a zombie or in uninterruptible sleep, and their stacks from
// the outermost frame in, of which the two innermost may differ. Of ranks that both wait for others, the stacks down to the
// call that entered the transport: inside it a wait is seen anywhere, sleeping or looking whether the others live. The odd one: of the smallest cluster, if it has one rank and is not the largest. Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "athanor/launch/diagnosis/stacks.h"

namespace athanor::launch::diagnosis {

inline constexpr const char* kTransport = "::comm::";  // in the names of its functions

struct RankStacks {
  int rank = 0;
  ProcessStacks stacks = {};
};

struct StackCluster {
  std::vector<int> ranks = {};  // ascending
  char state = '?';             // of the first one's main thread
  std::string wait_channel = {};
  std::vector<std::string> frames = {};  // its stack
};

// The largest first; of equal ones that with the smallest rank. Ranks whose process is gone are left out.
std::vector<StackCluster> cluster_stacks(const std::vector<RankStacks>& ranks,
                                         const std::string& waits_in = kTransport);
// Two clusters of one rank each: the one that does not wait in `waits_in`, where the other one does.
std::optional<int> odd_rank(const std::vector<StackCluster>& clusters,
                            const std::string& waits_in = kTransport);
// A line each cluster: ranks, state, and the stack down to `most_frames`.
std::string text_of(const std::vector<StackCluster>& clusters, size_t most_frames = 6);

}  // namespace athanor::launch::diagnosis
