#include "athanor/layout/groups.h"

#include <algorithm>
#include <numeric>

namespace athanor::layout {
namespace {

std::vector<int> range_of(int first, int last) {
  std::vector<int> ranks(static_cast<size_t>(last - first));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

// Without hybrid sharding a shard lies over all ranks that sum.
ParameterGroups groups_of(const Layout& layout, const ParameterGroup& group, Group& sum, Group& average,
                          Mesh& mesh) {
  ParameterGroups groups{.sum = &sum, .shard = &sum, .replicate = &mesh.group({}), .average = &average};
  if (!layout.is_hybrid()) return groups;
  groups.shard = &mesh.group(group.shard);
  groups.replicate = &mesh.group(group.replicate);
  return groups;
}

}  // namespace

Groups::Groups(const Layout& layout, World& world) : world_(world) {
  const int me = world.rank(), workers = layout.training_ranks();
  alone_ = world.make_group({me}, "one rank");
  all = role = exchange = &world.all();
  for (Group** group : {&tensor, &context, &pipeline, &pipeline_ends, &data, &losses, &balance, &experts})
    *group = alone_.get();
  dense = expert = {alone_.get(), alone_.get(), alone_.get(), alone_.get()};
  if (layout.servers > 0) {
    role_ = layout.is_server(me) ? world.make_group(range_of(workers, world.size()), "servers")
                                 : world.make_group(range_of(0, workers), "workers");
    exchange_ = world.make_group(range_of(0, world.size()), "workers and servers");
    role = role_.get();
    exchange = exchange_.get();
  }
  mesh_.emplace(dense_mesh(layout), world);
  if (layout.is_server(me)) {
    data = losses = role;
    return;
  }

  tensor = &mesh_->group({axis::tp});
  context = &mesh_->group({axis::cp});
  pipeline = &mesh_->group({axis::pp});
  // Where these are all ranks, the world's own group: its rank numbers need no translation.
  const AxisNames data_axes = {axis::local_sgd, axis::replicate, axis::shard, axis::cp};
  data = layout.pp * layout.tp == 1 ? role : &mesh_->group(data_axes);
  losses = layout.pp == 1
               ? data
               : &mesh_->group({axis::pp, axis::local_sgd, axis::replicate, axis::shard, axis::cp});
  if (layout.shares == Shares::by_speed)
    balance = layout.local_sgd == 1
                  ? role
                  : &mesh_->group({axis::pp, axis::replicate, axis::shard, axis::cp, axis::tp});
  Group& average = mesh_->group(layout.dense.average);  // of experts, too: local SGD is outside of both grids
  dense = groups_of(layout, layout.dense, layout.local_sgd == 1 ? *data : mesh_->group(layout.dense.sum),
                    average, *mesh_);
  if (layout.experts.exists) {
    expert_mesh_.emplace(expert_mesh(layout), world);
    experts = &expert_mesh_->group({axis::ep, axis::ep_tp});
    expert =
        groups_of(layout, layout.experts, expert_mesh_->group(layout.experts.sum), average, *expert_mesh_);
  }
  if (!layout.ties_ends) return;
  const auto [first, last] = std::minmax(layout.rank_of_stage.front(), layout.rank_of_stage.back());
  if (const int own = mesh_->coordinate(axis::pp); first != last && (own == first || own == last)) {
    const std::vector<int> stages = mesh_->shape().peers(me, {axis::pp});
    ends_ = world.make_group({stages[static_cast<size_t>(first)], stages[static_cast<size_t>(last)]},
                             "first and last stage");
    pipeline_ends = ends_.get();
  }
}

}  // namespace athanor::layout
