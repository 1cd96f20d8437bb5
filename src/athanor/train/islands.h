// The islands of two-speed synchronisation (parallel/two_speed.h) in a run: who is in one, and what of them a checkpoint
// holds.
//
//   config.local_sgd.group_size = island_ranks(config, dp, ranks_of_host);          // "auto" no more
//   training.lay_out(mesh);                              // calls split_islands(make_islands(world, shape, ranks))
//
// An island is whole: the ranks that share a model, a sequence, a pipeline or the experts of a layer are in one.
// With ranks of dp numbered 0 1 2 3 and local_sgd.group_size = 2, cp = 2, a stage's ranks are
//
//   island 0:  dp 0: 0 1   dp 1: 2 3        inner {0,1,2,3} {4,5,6,7}
//   island 1:  dp 2: 4 5   dp 3: 6 7        across {0,4} {1,5} {2,6} {3,7};  experts, ep = 2: {0,2} {1,3} {4,6} {5,7}
//
// In a checkpoint the model is that of the outer weights, model.NAME, beside outer.momentum.NAME; each island's own
// weights and optimizer state, which differ, are replica.H.model.NAME, replica.H.adam.m.NAME. Read by other numbers of
// islands, island h takes what island h mod (those written) had; a checkpoint without islands is where all of them
// start from. What codes of meetings left out is replica.H.outer.error_feedback.NAME, outer.server_error.NAME; of n islands,
// h takes the sum of those of h, h + n, ...: what is owed to the weights stays the same.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/comm/mesh.h"
#include "athanor/config/config.h"
#include "athanor/parallel/two_speed.h"

namespace athanor {

// Ranks of parallel.dp in an island; "auto": those on a host. ConfigError where they do not divide dp, or where the
// ranks of parallel.ep, or of parallel.shard_degree, would lie in two islands.
int island_ranks(const Config& config, int dp, int ranks_of_host);

struct IslandGroups {
  std::unique_ptr<Group> inner, across;
  // Of `inner`'s island the ranks with the same experts; null: these are `inner`.
  std::unique_ptr<Group> experts;
};
// The ranks of dp in groups of so many neighbours, with those that share their sequences (cp), and the ranks with the same
// place in each: `name` names the first kind. Of one stage, and one part of tp.
// Only those of each `within` neighbours of dp are across one another (0: all of dp): sets of shards of an island.
IslandGroups make_islands(World& world, const MeshShape& shape, int ranks, const std::string& name = "island",
                          int within = 0);
std::unique_ptr<Group> make_island_experts(World& world, const MeshShape& shape, int ranks);
// Hybrid sharding of experts on other ranks: of each set of shards those with the same ones, and those with the same
// place in each; where a set has fewer ranks than experts are cut into, every rank alone and all of them.
IslandGroups make_expert_shards(World& world, const MeshShape& shape, int ranks, int within = 0);

// Grains by speed (parallel/grain_balance.h): those of an island, or of the world, who deal out its grains, and for each
// which of its places in dp it has: ranks of one place compute the same grains.
struct GrainDealers {
  std::unique_ptr<Group> own;  // of an island; null: `group` are all ranks
  Group* group = nullptr;
  std::vector<int> units;  // by rank of the group
};
GrainDealers make_grain_dealers(World& world, const MeshShape& shape, int ranks_of_island);

// "" without islands, else "replica.H." of this rank's.
std::string island_prefix(const OuterSync* outer);
// Where this rank reads its own from; Error for islands where there should be none.
std::string island_prefix(const Checkpoint& checkpoint, const OuterSync* outer, const Param& any);

void add_outer(std::vector<NamedTensor>& tensors, const OuterSync& outer,
               const std::vector<std::unique_ptr<Param>>& params);
void load_outer(const Checkpoint& checkpoint, OuterSync& outer);

}  // namespace athanor
