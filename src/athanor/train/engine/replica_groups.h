// Replica groups of local SGD (DiLoCo; parallel/data/local_sgd.h), which the code calls replica groups: which ranks form one,
// and what a checkpoint holds of each.
//
//   config.parallel.sync_group = replica_group_ranks(config, dp, ranks_of_host);          // resolves "auto"
//   training.lay_out(mesh);                              // calls split_replica_groups(make_replica_groups(world, shape, ranks))
//
// Ranks that share a model (tp, pp), a sequence (cp) or the experts of a layer (ep) are always in one replica group.
// With dp = 4, sync_group = 2 and cp = 2, the ranks of one stage are
//
//   replica_group 0:  dp 0: 0 1   dp 1: 2 3        inner {0,1,2,3} {4,5,6,7}
//   replica_group 1:  dp 2: 4 5   dp 3: 6 7        across {0,4} {1,5} {2,6} {3,7};  experts, ep = 2: {0,2} {1,3} {4,6} {5,7}
//
// In a checkpoint model.NAME are the outer weights and outer.momentum.NAME is the outer momentum. Each replica group H
// has its own weights and optimizer state, replica group.H.model.NAME and replica group.H.adam.m.NAME. If n groups wrote the
// checkpoint, group h reads the tensors of group h mod n. Without replica groups in the checkpoint, all start from
// model.NAME. Error-feedback residuals of compressed outer steps are replica group.H.outer.residual.NAME and
// outer.sum_residual.NAME. A job with n groups reads into group h the sum of the residuals of h, h + n, h + 2n, ..., so
// the total correction that the weights still need is unchanged. Thread rule: one thread per rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/comm/mesh.h"
#include "athanor/config/config.h"
#include "athanor/parallel/data/local_sgd.h"

namespace athanor::train::engine {

// How many dp ranks form a replica group; "auto" takes the dp ranks of one host. ConfigError where the number does not
// divide dp, or where an expert group (ep) or a shard group (zero_shard) would span two replica groups.
int replica_group_ranks(const Config& config, int dp, int ranks_of_host);

// This rank's groups after the dp ranks of a stage were split into equal groups of consecutive ranks. Used for replica
// groups (local SGD) and for shard groups (hybrid sharding).
struct ReplicaGroups {
  // `inner`: this rank's replica group or shard group. `across`: the ranks at this rank's index in the other ones.
  std::unique_ptr<Group> inner, across;
  // The ranks of `inner` with the same experts; null: all of `inner`.
  std::unique_ptr<Group> experts;
};
// Groups of `ranks` consecutive dp ranks, cp ranks included, for this rank's stage and tp coordinate. `name`: the name
// of `inner` in messages. `within`: `across` is limited to this many consecutive dp ranks (the shard groups of one
// replica group); 0: all of dp.
ReplicaGroups make_replica_groups(World& world, const MeshShape& shape, int ranks,
                                  const std::string& name = "replica group", int within = 0);
// The ranks of this rank's replica group with the same experts (edp within the group).
std::unique_ptr<Group> make_replica_group_experts(World& world, const MeshShape& shape, int ranks);
// Hybrid sharding of expert weights under expert parallelism. `inner`: the ranks of this shard group with the same
// experts; `across`: their replicas. Where a shard group has fewer ranks than ep, `inner` is this rank alone and
// `across` are all ranks with the same experts.
ReplicaGroups make_expert_shards(World& world, const MeshShape& shape, int ranks, int within = 0);

// The ranks among which the load balancer (parallel/data/load_balance.h) distributes micro-batches: a replica group
// over all axes, or the whole world.
struct LoadBalancers {
  std::unique_ptr<Group> own;  // the replica group; null: `group` has all ranks
  Group* group = nullptr;
  std::vector<int> units;  // dp coordinate of each rank in `group`; equal: the same micro-batches
};
LoadBalancers make_load_balancers(World& world, const MeshShape& shape, int ranks_of_replica_group);

// Prefix of tensor names: "replica group.H." for this rank's replica group H; "" without local SGD.
std::string replica_prefix(const OuterSync* outer);
// The prefix under which this rank reads its weights; "" if the checkpoint has no replica groups. ConfigError if it has
// some and the run does not use local SGD. `any`: any parameter of the model.
std::string replica_prefix(const Checkpoint& checkpoint, const OuterSync* outer, const Param& any);

// Outer weights, outer momentum and residuals, to and from a checkpoint.
void add_outer(std::vector<NamedTensor>& tensors, const OuterSync& outer,
               const std::vector<std::unique_ptr<Param>>& params);
void load_outer(const Checkpoint& checkpoint, OuterSync& outer);

}  // namespace athanor::train::engine
