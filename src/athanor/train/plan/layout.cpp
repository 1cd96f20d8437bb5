#include "athanor/train/plan/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/pipeline/csv.h"

namespace athanor::train::plan {
namespace {

bool is_file(const ParallelConfig& p) {
  return p.schedule.ends_with(".csv");
}

Schedule schedule_of_file(const ParallelConfig& p, int64_t micro_batches) {
  Schedule schedule;
  try {
    schedule = parse_csv(p.schedule_csv, p.schedule);
  } catch (const Error& error) {
    throw ConfigError(fmt::format("parallel.schedule: {}", error.what()));
  }
  if (schedule.num_ranks() != p.pp)
    throw ConfigError(fmt::format("parallel.pp: got {} ranks for '{}', expected its {}", p.pp, p.schedule,
                                  schedule.num_ranks()));
  if (schedule.micro_batches < micro_batches)
    throw ConfigError(fmt::format(
        "parallel.schedule: got {} micro-batches in '{}', expected at least the {} that a rank of "
        "parallel.dp {} of a step",
        schedule.micro_batches, p.schedule, micro_batches, p.load_balance == "speed" ? "may have" : "has"));
  if (p.virtual_stages > 0 && schedule.num_stages() != p.pp * p.virtual_stages)
    throw ConfigError(fmt::format("parallel.virtual_stages: got {} for '{}', expected {} stages in all",
                                  p.virtual_stages, p.schedule, schedule.num_stages()));
  return without_surplus(std::move(schedule), static_cast<int>(micro_batches));
}

void check_shards(const ParallelConfig& p, int64_t dp) {
  if (p.shard_degree == 0 || dp % p.shard_degree == 0) return;
  int64_t nearest = std::min(p.shard_degree, dp);
  while (dp % nearest != 0) --nearest;
  throw ConfigError(
      fmt::format("parallel.shard_degree: got {} for {} ranks of parallel.dp, expected a divisor",
                  p.shard_degree, dp),
      nearest > 1 ? fmt::format("the nearest is {}", nearest)
                  : "parallel.shard_degree = 0 shards over all of them");
}

// The most micro-batches that a dp rank can get in a step. With balance = "speed" every other rank (with local SGD, of
// its replica group) may be left with one.
int64_t most_micro_batches(const Config& config, int64_t dp) {
  const ParallelConfig& p = config.parallel;
  const int64_t micro_batches = micro_batches_of_step(config.train);
  if (p.load_balance != "speed") return (micro_batches + dp - 1) / dp;
  const bool has_replica_groups = config.local_sgd.sync_interval > 0 && config.local_sgd.group_size > 0 &&
                                  dp % config.local_sgd.group_size == 0;
  const int64_t replica_groups = has_replica_groups ? dp / config.local_sgd.group_size : 1;
  return (micro_batches + replica_groups - 1) / replica_groups - (dp / replica_groups - 1);
}

void check_pipeline(const Config& config, int64_t dp) {
  const ParallelConfig& p = config.parallel;
  if (p.pp == 1 && !is_file(p)) return;  // a file says how many ranks it is for
  const int64_t micro_batches = micro_batches_of_step(config.train);
  const Schedule schedule = pipeline_schedule(config, most_micro_batches(config, dp));
  pipeline_parts(config, schedule);
  if (p.zero_stage >= 2 && micro_batches % dp != 0)
    throw ConfigError(fmt::format("parallel.zero_stage: got {} with parallel.pp = {} and {} micro-batches of "
                                  "a step for {} ranks of "
                                  "parallel.dp, expected as many micro-batches on each",
                                  p.zero_stage, p.pp, micro_batches, dp),
                      fmt::format("the nearest is parallel.zero_stage = 1, or train.global_batch_size = {}",
                                  (micro_batches + dp - 1) / dp * dp * config.train.micro_batch_size));
}

void check_expert_parallel(const Config& config, int64_t dp) {
  const ParallelConfig& p = config.parallel;
  if (p.ep == 1) return;
  const MeshShape shape{.dp = static_cast<int>(dp),
                        .cp = static_cast<int>(p.cp),
                        .tp = static_cast<int>(p.tp),
                        .ep = static_cast<int>(p.ep)};
  const int64_t ranks = dp * p.cp * p.tp, micro_batches = micro_batches_of_step(config.train);
  if (ranks % p.ep != 0) {
    int64_t nearest = std::min(p.ep, ranks);
    while (ranks % nearest != 0 || config.model.num_experts % nearest != 0) --nearest;
    throw ConfigError(fmt::format("parallel.ep: got {} with {} ranks of a stage (dp x cp x tp), expected a "
                                  "divisor of them",
                                  p.ep, ranks),
                      fmt::format("the nearest is {}", nearest));
  }
  if (shape.expert_parts() == 0 && micro_batches % dp != 0)
    throw ConfigError(fmt::format("parallel.ep: got {} with {} micro-batches of a step for {} ranks of "
                                  "parallel.dp, expected as many "
                                  "micro-batches on each: they exchange tokens in every layer of experts",
                                  p.ep, micro_batches, dp),
                      fmt::format("the nearest is train.global_batch_size = {}",
                                  (micro_batches + dp - 1) / dp * dp * config.train.micro_batch_size));
}

// Whether a shard group fits ep: it has equally many ranks for every expert, or at most one for each.
bool fits_experts(const ParallelConfig& p, int64_t shard) {
  const int64_t ranks = shard * p.cp * p.tp;
  return ranks <= p.ep || ranks % p.ep == 0;
}

void check_expert_shards(const ParallelConfig& p, int64_t dp) {
  if (p.ep == 1 || p.shard_degree == 0 || fits_experts(p, p.shard_degree)) return;
  int64_t nearest = dp;
  for (int64_t shard = dp; shard >= 2; --shard)
    if (dp % shard == 0 && fits_experts(p, shard) &&
        std::abs(shard - p.shard_degree) < std::abs(nearest - p.shard_degree))
      nearest = shard;
  throw ConfigError(
      fmt::format(
          "parallel.shard_degree: got {} with parallel.ep = {}, shard groups of {} ranks (with cp and tp), "
          "expected a multiple of {} or at most {}",
          p.shard_degree, p.ep, p.shard_degree * p.cp * p.tp, p.ep, p.ep),
      fmt::format("the nearest is {}", nearest));
}

}  // namespace

int64_t micro_batches_of_step(const TrainConfig& train) {
  return (train.global_batch_size + train.micro_batch_size - 1) / train.micro_batch_size;
}

int training_ranks(const Config& config, int world_size) {
  return world_size - static_cast<int>(config.parameter_server.servers);
}

bool sums_experts_apart(const Config& config, const MeshShape& shape) {
  return config.model.num_experts > 0 && (shape.ep > 1 || shape.tp > 1);
}

MeshShape mesh_shape(const Config& config, int world_size) {
  const ParallelConfig& p = config.parallel;
  const int64_t others = p.pp * p.cp * p.tp;
  return {.pp = static_cast<int>(p.pp),
          .dp = static_cast<int>(p.dp != 0 ? p.dp : training_ranks(config, world_size) / others),
          .cp = static_cast<int>(p.cp),
          .tp = static_cast<int>(p.tp),
          .ep = static_cast<int>(p.ep)};
}

void check_ranks(const Config& config, int all_ranks) {
  const ParallelConfig& p = config.parallel;
  if (config.parameter_server.servers >= all_ranks)
    throw ConfigError(fmt::format("parameter_server.servers: got {} in a world of {} rank{}, expected fewer",
                                  config.parameter_server.servers, all_ranks, all_ranks == 1 ? "" : "s"),
                      "the other ranks train");
  const int world_size = training_ranks(config, all_ranks);
  std::string axes, key;  // the axes that partition a model
  int64_t others = 1;
  for (const auto& [name, size] : {std::pair{"tp", p.tp}, {"cp", p.cp}, {"pp", p.pp}}) {
    if (size == 1 && name != std::string("tp")) continue;
    others *= size;
    if (world_size < others)
      throw ConfigError(
          fmt::format("parallel.{}: got {} in a world of {} rank{}{}, expected at least {} ranks", name, size,
                      world_size, world_size == 1 ? "" : "s", axes.empty() ? "" : " with " + axes, others),
          fmt::format("start them together: athanor launch -n {} -- train FILE.toml", others));
    if (world_size % others != 0) {
      const std::string with = axes.empty() ? "" : " with " + axes;
      throw ConfigError(fmt::format("parallel.{}: got {} in a world of {} ranks{}, expected a divisor of {}",
                                    name, size, world_size, with,
                                    with.empty() ? "them" : fmt::format("{}", world_size / (others / size))),
                        fmt::format("a replica of the model takes {} ranks: launch -n {} or -n {}", others,
                                    world_size / others * others, (world_size / others + 1) * others));
    }
    if (size > 1) axes += fmt::format("{}parallel.{} = {}", axes.empty() ? "" : " and ", name, size);
  }
  const int64_t left = world_size / others;
  if (p.dp != 0 && p.dp != left)
    throw ConfigError(fmt::format("parallel.dp: got {} in a world of {} ranks{}, expected \"auto\" or {}",
                                  p.dp, world_size, axes.empty() ? "" : " with " + axes, left));
  check_shards(p, left);
  const TrainConfig& t = config.train;
  const int64_t micro_batches = micro_batches_of_step(t);
  if (left > micro_batches)
    throw ConfigError(
        fmt::format("parallel.dp: got {} ranks for the {} micro-batches of a step "
                    "(train.global_batch_size {} / train.micro_batch_size {}), expected at most {}",
                    left, micro_batches, t.global_batch_size, t.micro_batch_size, micro_batches),
        fmt::format("start at most {} ranks, lower train.micro_batch_size or raise train.global_batch_size",
                    micro_batches * others + config.parameter_server.servers));
  check_pipeline(config, left);
  check_expert_parallel(config, left);
  check_expert_shards(p, left);
}

Schedule pipeline_schedule(const Config& config, int64_t micro_batches) {
  const ParallelConfig& p = config.parallel;
  if (is_file(p)) return schedule_of_file(p, micro_batches);
  try {
    return make_schedule(p.schedule, {.ranks = static_cast<int>(p.pp),
                                      .micro_batches = static_cast<int>(micro_batches),
                                      .virtual_stages = static_cast<int>(p.virtual_stages)});
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("parallel.schedule: {}", error.what()), error.hint());
  }
}

std::vector<ModelPart> pipeline_parts(const Config& config, const Schedule& schedule) {
  const ParallelConfig& p = config.parallel;
  const int64_t stages = schedule.num_stages(), layers = config.model.num_hidden_layers;
  if (p.stage_layers.empty()) {
    const int64_t of_rank = stages / p.pp, fitting = layers / of_rank;
    if (stages > layers)
      throw ConfigError(
          fmt::format(
              "parallel.pp: got {} ranks with {} stage{} each for {} layers, expected at most {} stages "
              "in all",
              p.pp, of_rank, of_rank == 1 ? "" : "s", layers, layers),
          fitting >= 1 ? fmt::format("the nearest with this schedule is parallel.pp = {}", fitting)
                       : "the nearest is parallel.schedule = \"1f1b\", which has one stage of a rank");
    return cut_model(even_stage_layers(layers, stages));
  }
  if (std::ssize(p.stage_layers) != stages)
    throw ConfigError(
        fmt::format("parallel.stage_layers: got {} stages, expected the {} of schedule '{}' on "
                    "parallel.pp = {} ranks",
                    p.stage_layers.size(), stages, p.schedule, p.pp));
  return cut_model(p.stage_layers);
}

}  // namespace athanor::train::plan
