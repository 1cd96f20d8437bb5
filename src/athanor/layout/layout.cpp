#include "athanor/layout/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "athanor/layout/check.h"
#include "athanor/layout/stages.h"

namespace athanor::layout {
namespace {

// How many dp ranks a replica group of local SGD has; "auto": those of a host, in whole shards.
int group_size(const Config& config, int dp, int ranks_of_host) {
  if (config.local_sgd.group_size != 0) return static_cast<int>(config.local_sgd.group_size);
  const int sharing = static_cast<int>(config.parallel.tp * config.parallel.cp);
  const int shard = static_cast<int>(std::max<int64_t>(1, config.parallel.shard_degree));
  const int of_host = std::clamp(ranks_of_host / std::max(1, sharing), 1, dp);
  return std::max(shard, of_host / shard * shard);
}

Request request_of(const Config& config, const Ranks& ranks) {
  const ParallelConfig& p = config.parallel;
  Request request{.layout = {.pp = static_cast<int>(p.pp),
                             .cp = static_cast<int>(p.cp),
                             .tp = static_cast<int>(p.tp),
                             .ep = static_cast<int>(p.ep),
                             .servers = static_cast<int>(config.parameter_server.servers),
                             .schedule = p.schedule,
                             .schedule_csv = p.schedule_csv,
                             .virtual_stages = p.virtual_stages,
                             .cp_method = p.cp_method,
                             .sp = p.sp,
                             .zero_stage = static_cast<int>(p.zero_stage),
                             .shard_degree = p.shard_degree,
                             .tree = p.reduce == "tree",
                             .recompute = p.recompute,
                             .micro_batches = micro_batches_of_step(config.train),
                             .shares = p.load_balance == "speed" ? Shares::by_speed : Shares::even},
                  .world_size = ranks.world_size};
  Layout& layout = request.layout;
  request.training_ranks = ranks.world_size - layout.servers;
  request.dp = std::max(1, request.training_ranks / (layout.pp * layout.cp * layout.tp));
  request.group_size =
      config.local_sgd.sync_interval > 0 ? group_size(config, request.dp, ranks.ranks_of_host) : request.dp;
  layout.local_sgd = request.dp / request.group_size;
  if (layout.zero_stage > 0)
    layout.shard = p.shard_degree > 0 ? static_cast<int>(p.shard_degree) : request.group_size;
  layout.replicate = request.group_size / layout.shard;
  return request;
}

// How many consecutive tp ranks an ep group has, on each of its ep / this (dp, cp) ranks.
int ep_within_tp(const Layout& layout) {
  return std::max(1, std::gcd(layout.ep, layout.tp));
}

// Whether the ranks of one shard (x cp x tp) have whole ep groups, so that expert weights are sharded over them, too.
bool shards_experts(const Layout& layout) {
  return layout.shard * layout.cp * layout.tp % layout.ep == 0;
}

ParameterGroup dense_group(const Layout& layout, int64_t average_interval) {
  ParameterGroup group{.sum = {axis::replicate, axis::shard, axis::cp}};
  if (layout.zero_stage > 0) {
    group.shard = {axis::shard, axis::cp};
    group.replicate = {axis::replicate};
  }
  if (average_interval > 0) group.average = {axis::local_sgd};
  group.average_interval = average_interval;
  return group;
}

ParameterGroup expert_group(const Layout& layout, int64_t average_interval) {
  ParameterGroup group{.sum = {axis::expert_replicate, axis::expert_shard, axis::expert_tp}};
  if (layout.zero_stage > 0 && shards_experts(layout)) {
    group.shard = {axis::expert_shard, axis::expert_tp};
    group.replicate = {axis::expert_replicate};
  } else if (layout.zero_stage > 0) {
    group.replicate = group.sum;
  }
  if (average_interval > 0) group.average = {axis::local_sgd};
  group.average_interval = average_interval;
  return group;
}

}  // namespace

bool counts_hosts(const Config& config) {
  return config.local_sgd.sync_interval > 0;
}

int64_t micro_batches_of_step(const TrainConfig& train) {
  return (train.global_batch_size + train.micro_batch_size - 1) / train.micro_batch_size;
}

int Layout::expert_parts() const {
  return cp * ep_within_tp(*this) % ep == 0 ? cp * tp / ep : 0;
}

std::string Layout::text() const {
  return fmt::format("{}dp {} tp {}{}{}{} zero {}{} reduce {} recompute {}{}{}",
                     pp > 1 ? fmt::format("pp {} {} ", pp, schedule) : "", dp(), tp, sp ? " sp" : "",
                     cp > 1 ? fmt::format(" cp {} {}", cp, cp_method) : "",
                     ep > 1 ? fmt::format(" ep {}", ep) : "", zero_stage,
                     shard_degree > 0 ? fmt::format(" of {}", shard_degree) : "", tree ? "tree" : "fast",
                     recompute, local_sgd > 1 ? fmt::format(" local_sgd {}", local_sgd) : "",
                     servers > 0 ? fmt::format(" servers {}", servers) : "");
}

std::vector<int> balance_units(const Layout& layout, int ranks) {
  std::vector<int> units;
  for (int rank = 0; rank < ranks; ++rank)
    units.push_back(rank / (layout.cp * layout.tp) % layout.replica_group_ranks());
  return units;
}

MeshShape dense_mesh(const Layout& layout) {
  return MeshShape({{axis::pp, layout.pp},
                    {axis::local_sgd, layout.local_sgd},
                    {axis::replicate, layout.replicate},
                    {axis::shard, layout.shard},
                    {axis::cp, layout.cp},
                    {axis::tp, layout.tp}});
}

MeshShape expert_mesh(const Layout& layout) {
  const int within = ep_within_tp(layout), across = std::max(1, layout.ep / within);
  const int copies = layout.replicate * layout.shard * layout.cp / across;
  const int shard = shards_experts(layout) ? layout.shard * layout.cp / across : 1;
  return MeshShape({{axis::pp, layout.pp},
                    {axis::local_sgd, layout.local_sgd},
                    {axis::expert_replicate, copies / shard},
                    {axis::expert_shard, shard},
                    {axis::ep, across},
                    {axis::expert_tp, layout.tp / within},
                    {axis::ep_tp, within}});
}

Layout make_layout(const Config& config, const Ranks& ranks) {
  const Request request = request_of(config, ranks);
  check(config, request);
  Layout layout = request.layout;
  if (layout.pp == 1) {  // of one stage: one micro-batch after the other
    layout.schedule = "1f1b";
    layout.schedule_csv.clear();
    layout.virtual_stages = 0;
  }
  layout.rank_of_stage = pipeline_schedule(layout, 1).rank_of_stage;
  layout.stage_layers =
      config.parallel.stage_layers.empty() || layout.pp == 1
          ? even_stage_layers(config.model.num_hidden_layers, std::ssize(layout.rank_of_stage))
          : config.parallel.stage_layers;
  layout.ties_ends = config.model.tie_word_embeddings;
  layout.dense = dense_group(layout, config.local_sgd.sync_interval);
  layout.experts.exists = config.model.num_experts > 0 && (layout.ep > 1 || layout.tp > 1);
  if (layout.experts.exists) layout.experts = expert_group(layout, config.local_sgd.sync_interval);
  return layout;
}

}  // namespace athanor::layout
