#include "athanor/train/engine/replica_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/kernels/table.h"
#include "athanor/train/engine/param_slices.h"

namespace athanor::train::engine {

int replica_group_ranks(const Config& config, int dp, int ranks_of_host) {
  const ParallelConfig& p = config.parallel;
  const auto sharing = static_cast<int>(p.tp * p.cp);
  const int shard = static_cast<int>(std::max<int64_t>(1, p.shard_degree));
  const int of_host = std::clamp(ranks_of_host / std::max(1, sharing), 1, dp);
  const int ranks = config.local_sgd.group_size != 0 ? static_cast<int>(config.local_sgd.group_size)
                                                     : std::max(shard, of_host / shard * shard);
  if (dp % ranks != 0)
    throw ConfigError(
        fmt::format("local_sgd.group_size: got {} of parallel.dp = {} ranks, expected a divisor", ranks, dp),
        "replica groups have one size");
  if (ranks % shard != 0) {
    int nearest = std::min(shard, ranks);
    while (ranks % nearest != 0) --nearest;
    throw ConfigError(fmt::format("parallel.shard_degree: got {} in replica groups of {} ranks "
                                  "(local_sgd.group_size), expected a divisor",
                                  shard, ranks),
                      nearest > 1 ? fmt::format("the nearest is {}", nearest)
                                  : "parallel.shard_degree = 0 shards over all of a replica group");
  }
  if (ranks * sharing % p.ep != 0) {
    int nearest = dp;
    for (int size = dp; size >= 1; --size)
      if (dp % size == 0 && size * sharing % p.ep == 0 && std::abs(size - ranks) <= std::abs(nearest - ranks))
        nearest = size;
    throw ConfigError(
        fmt::format(
            "parallel.ep: got {} in replica groups of {} ranks (local_sgd.group_size = {} x cp x tp), "
            "expected a divisor of them",
            p.ep, ranks * sharing, ranks),
        fmt::format("the nearest is local_sgd.group_size = {}: all experts are in every replica group",
                    nearest));
  }
  return ranks;
}

namespace {

// Whether `peer`, a rank of this stage, lies in the same group of `ranks` consecutive dp ranks as this rank.
bool are_in_one(const World& world, const MeshShape& shape, int peer, int ranks) {
  const int sharing = shape.cp * shape.tp, of_stage = shape.dp * sharing, together = ranks * sharing;
  return peer % of_stage / together == world.rank() % of_stage / together;
}

}  // namespace

ReplicaGroups make_replica_groups(World& world, const MeshShape& shape, int ranks, const std::string& name,
                                  int within) {
  const int together = ranks * shape.cp * shape.tp;
  const auto is_inside = [&](int peer) { return are_in_one(world, shape, peer, ranks); };
  std::vector<int> inner, across;
  for (const int peer : shape.peers(world.rank(), {Axis::dp, Axis::cp})) {
    if (is_inside(peer)) inner.push_back(peer);
    if (peer % together == world.rank() % together && (within == 0 || are_in_one(world, shape, peer, within)))
      across.push_back(peer);
  }
  return {.inner = world.make_group(std::move(inner), name),
          .across = world.make_group(std::move(across), name + "s"),
          .experts = nullptr};
}

std::unique_ptr<Group> make_replica_group_experts(World& world, const MeshShape& shape, int ranks) {
  std::vector<int> experts;
  for (const int peer : shape.peers(world.rank(), {Axis::edp}))
    if (are_in_one(world, shape, peer, ranks)) experts.push_back(peer);
  return world.make_group(std::move(experts), "experts of a replica group");
}

ReplicaGroups make_expert_shards(World& world, const MeshShape& shape, int ranks, int within) {
  const int of_set = std::max(1, ranks * shape.cp * shape.tp / shape.ep);
  const int place = shape.coordinate(world.rank(), Axis::edp);
  std::vector<int> inner, across;
  for (const int peer : shape.peers(world.rank(), {Axis::edp})) {
    if (within > 0 && !are_in_one(world, shape, peer, within)) continue;
    const int other = shape.coordinate(peer, Axis::edp);
    if (other / of_set == place / of_set) inner.push_back(peer);
    if (other % of_set == place % of_set) across.push_back(peer);
  }
  return {.inner = world.make_group(std::move(inner), "experts of a set of shards"),
          .across = world.make_group(std::move(across), "experts of sets of shards"),
          .experts = nullptr};
}

LoadBalancers make_load_balancers(World& world, const MeshShape& shape, int ranks_of_replica_group) {
  const auto replica_group_of = [&](int rank) {
    return shape.coordinate(rank, Axis::dp) / ranks_of_replica_group;
  };
  LoadBalancers dealers;
  std::vector<int> members;
  for (int rank = 0; rank < shape.num_ranks(); ++rank) {
    if (replica_group_of(rank) != replica_group_of(world.rank())) continue;
    members.push_back(rank);
    dealers.units.push_back(shape.coordinate(rank, Axis::dp) % ranks_of_replica_group);
  }
  if (std::ssize(members) < world.size())
    dealers.own = world.make_group(std::move(members), "micro-batch dealers");
  dealers.group = dealers.own ? dealers.own.get() : &world.all();
  return dealers;
}

std::string replica_prefix(const OuterSync* outer) {
  return outer == nullptr ? "" : fmt::format("replica.{}.", outer->replica_group());
}

std::string replica_prefix(const Checkpoint& checkpoint, const OuterSync* outer, const Param& any) {
  int written = 0;
  while (checkpoint.has(fmt::format("replica.{}.model.{}", written, any.name()))) ++written;
  if (written == 0) return "";
  if (outer == nullptr)
    throw ConfigError(
        fmt::format(
            "local_sgd.sync_interval: got 0 for '{}', expected k > 0: it holds the optimizer state of "
            "{} replica groups",
            checkpoint.path(), written),
        "train.init_from takes its weights alone");
  return fmt::format("replica.{}.", outer->replica_group() % written);
}

namespace {

// Whether this is the last stage's copy of a tied table. The first stage's is saved; the two are sharded differently.
bool is_second_copy(const Param& param) {
  return param.num_uses() > param.uses().size() && param.uses().front()->use() == "head";
}

std::string residual_kind(int replica_group) {
  return fmt::format("replica.{}.outer.error_feedback", replica_group);
}

}  // namespace

void add_outer(std::vector<NamedTensor>& tensors, const OuterSync& outer,
               const std::vector<std::unique_ptr<Param>>& params) {
  for (const OuterSync::Piece& piece : outer.pieces()) {
    if (is_second_copy(*piece.param)) continue;
    add_slices(tensors, "model", *piece.param, piece.range, {piece.weights});
    add_slices(tensors, "outer.momentum", *piece.param, piece.range, {piece.momentum});
  }
  for (const OuterSync::Residual& residual : outer.residuals())
    if (!is_second_copy(*residual.param))
      add_slices(tensors, residual.of_sum ? "outer.server_error" : residual_kind(outer.replica_group()),
                 *residual.param, residual.range, {residual.values});
  for (const auto& param : params)
    if (param->is_state()) add_slices(tensors, "model", *param, {param->master()});
}

void load_outer(const Checkpoint& checkpoint, OuterSync& outer) {
  const auto read = [&](const std::string& kind, const Param& param, const FlatRange& range,
                        const Tensor& to) {
    if (!checkpoint.has(kind + "." + param.name())) return false;
    const std::vector<float> values = read_slices(checkpoint, kind, param, range);
    std::copy(values.begin(), values.end(), to.data<float>());
    return true;
  };
  for (const OuterSync::Piece& piece : outer.pieces()) {
    read("model", *piece.param, piece.range, piece.weights);
    read("outer.momentum", *piece.param, piece.range, piece.momentum);
  }
  for (const OuterSync::Residual& residual : outer.residuals()) {
    Tensor values = residual.values;
    fill_zero(values);
    if (residual.of_sum) {
      read("outer.server_error", *residual.param, residual.range, values);
      continue;
    }
    const Tensor part = empty_like(values, Category::workspace);
    for (int h = outer.replica_group(); read(residual_kind(h), *residual.param, residual.range, part);
         h += outer.num_replica_groups())
      kernels_of(values).elementwise.accumulate(values.queue(), values, part);
  }
  outer.set_begun();
}

}  // namespace athanor::train::engine
