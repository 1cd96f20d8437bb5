// The layout of a run as a value: how the ranks of a world share its work. Plain data from (config, world size), made
// before a byte is allocated; training, the memory plan and `verify` build the same engine from it.
//
//   const Layout layout = make_layout(config, {.world_size = 8, .ranks_of_host = 4});   // ConfigError, layout/check.h
//   layout.text();                           // pp 2 1f1b dp 2 tp 2 sp zero 1 reduce tree recompute none
//   Groups groups(layout, world);            // layout/groups.h: all of its groups
//
// The ranks that train are a grid, its axes from the outermost to the fastest: pp, local_sgd, replicate, shard, cp, tp.
// What configs call dp is local_sgd x replicate x shard:
//
//   local_sgd   replica groups of local SGD, which average weights every few steps
//   replicate   hybrid sharding: ranks with the same shard. Without ZeRO all of dp
//   shard       ZeRO: ranks that hold different shards
//
// Layers of experts see the same ranks as another grid: pp, local_sgd, expert_replicate, expert_shard, ep, expert_tp,
// ep_tp. The ranks of an ep group have all experts of a layer between them. With g = gcd(ep, tp) it has g consecutive
// tp ranks (ep_tp) on each of ep / g consecutive (dp, cp) ranks (ep): all ranks of a tp group see the same micro-batches
// in their ep groups. Where ep / g divides cp, all ranks of an ep group have the same micro-batches.
//
// Parameters form two groups, dense ones and those of experts, for which a ParameterGroup says over which axes gradients
// are summed, state is sharded, and weights are averaged. The last `servers` ranks are parameter servers.
// Thread rule: plain data and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/comm/mesh.h"
#include "athanor/config/config.h"

namespace athanor::layout {

namespace axis {
inline constexpr std::string_view pp = "pp", local_sgd = "local_sgd", replicate = "replicate",
                                  shard = "shard", cp = "cp", tp = "tp";
inline constexpr std::string_view expert_replicate = "expert_replicate", expert_shard = "expert_shard",
                                  ep = "ep", expert_tp = "expert_tp", ep_tp = "ep_tp";
}  // namespace axis

enum class Shares { even, by_speed };  // of the micro-batches of a step, among the ranks of dp

struct ParameterGroup {
  bool exists = true;            // false: its parameters are in the dense group
  AxisNames sum = {};            // gradients are summed over these, every step
  AxisNames shard = {};          // ZeRO: shards lie over these
  AxisNames replicate = {};      // the others of `sum`: ranks with the same shard
  AxisNames average = {};        // local SGD: weights are averaged over these ...
  int64_t average_interval = 0;  // ... every so many steps; 0: never
  bool operator==(const ParameterGroup&) const = default;
};

struct Layout {
  int pp = 1, local_sgd = 1, replicate = 1, shard = 1, cp = 1, tp = 1;  // sizes
  int ep = 1;
  int servers = 0;

  std::string schedule = "1f1b";           // of the pipeline: a known name or a CSV file
  std::string schedule_csv = {};           // what is in that file
  int64_t virtual_stages = 0;              // of each rank; 0: as many as the schedule has
  std::vector<int> rank_of_stage = {0};    // pp coordinate of each stage
  std::vector<int64_t> stage_layers = {};  // blocks of each stage
  bool ties_ends = false;                  // the first and the last stage have the same embedding table
  std::string cp_method = "ring";          // or ulysses
  bool sp = false;                         // sequence parallelism, within tp
  int zero_stage = 0;
  int64_t shard_degree = 0;  // of hybrid sharding, as asked for; 0: without
  bool tree = false;         // reduce = "tree": the same bits for any dp
  std::string recompute = "none";
  int64_t micro_batches = 1;  // of a step
  Shares shares = Shares::even;
  ParameterGroup dense = {}, experts = {};
  bool operator==(const Layout&) const = default;

  int dp() const { return local_sgd * replicate * shard; }
  int replica_group_ranks() const { return replicate * shard; }  // of dp, that sum gradients every step
  int training_ranks() const { return pp * dp() * cp * tp; }
  int world_size() const { return training_ranks() + servers; }
  bool trains(int rank) const { return rank < training_ranks(); }
  bool is_server(int rank) const { return !trains(rank); }
  bool is_hybrid() const { return replicate > 1 && shard_degree > 0; }
  // cp * tp / ep: how many ranks with the same experts split one micro-batch; 0 if an ep group spans ranks of dp.
  int expert_parts() const;
  // Whether it must have the bits of one process (law 1): tp, cp, ep, and dp under reduce = "fast" add in another order.
  bool keeps_order() const { return tp == 1 && cp == 1 && ep == 1 && (dp() == 1 || tree); }
  std::string text() const;
};

// Where micro-batches are shared by speed: of each of the `ranks` that share them (Groups::balance), its number among
// the dp ranks of its replica group.
std::vector<int> balance_units(const Layout& layout, int ranks);

MeshShape dense_mesh(const Layout& layout);
MeshShape expert_mesh(const Layout& layout);

struct Ranks {
  int world_size = 1;
  int ranks_of_host = 1;  // local_sgd.group_size = "auto" is those of a host
};
// The layout that the config asks for. ConfigError, with the nearest legal layout, where these ranks cannot have it.
Layout make_layout(const Config& config, const Ranks& ranks);

// Whether the layout depends on how many ranks a host has, which must be the same on all hosts.
bool counts_hosts(const Config& config);

int64_t micro_batches_of_step(const TrainConfig& train);  // global / micro batch, rounded up

}  // namespace athanor::layout
