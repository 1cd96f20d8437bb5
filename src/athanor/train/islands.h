// The islands of two-speed synchronisation (parallel/two_speed.h) in a run: who is in one, and what of them a checkpoint
// holds.
//
//   config.parallel.sync_group = island_ranks(config, dp, ranks_of_host);          // "auto" no more
//   const IslandGroups islands = make_islands(world, shape, config.parallel.sync_group);
//   training.split_islands(*islands.inner, *islands.across);
//
// In a checkpoint the model is that of the outer weights, model.NAME, beside outer.momentum.NAME; each island's own
// weights and optimizer state, which differ, are island.H.model.NAME, island.H.adam.m.NAME. Read by other numbers of
// islands, island h takes what island h mod (those written) had; a checkpoint without islands is where all of them
// start from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/comm/mesh.h"
#include "athanor/config/config.h"
#include "athanor/parallel/two_speed.h"

namespace athanor {

// Ranks of parallel.dp in an island; "auto": those on a host. ConfigError where they do not divide dp.
int island_ranks(const Config& config, int dp, int ranks_of_host);

struct IslandGroups {
  std::unique_ptr<Group> inner, across;
};
// The ranks of dp in groups of so many neighbours, with those that share their sequences (cp), and the ranks with the same
// place in each: `name` names the first kind.
IslandGroups make_islands(World& world, const MeshShape& shape, int ranks,
                          const std::string& name = "island");

// "" without islands, else "island.H." of this rank's.
std::string island_prefix(const OuterSync* outer);
// Where this rank reads its own from; Error for islands where there should be none.
std::string island_prefix(const Checkpoint& checkpoint, const OuterSync* outer, const Param& any);

void add_outer(std::vector<NamedTensor>& tensors, const OuterSync& outer,
               const std::vector<std::unique_ptr<Param>>& params);
void load_outer(const Checkpoint& checkpoint, OuterSync& outer);

}  // namespace athanor
