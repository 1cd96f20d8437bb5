#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "athanor/base/human.h"
#include "athanor/config/refuse.h"
#include "athanor/config/validate_parts.h"

namespace athanor {
namespace {

// Sums along the tree are of f32 grains, whoever has them; what is coded are sums of a rank.
void check_compression(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::string key = "parallel.compression", &kind = p.compression;
  if (kind == "none") return;
  require(
      p.reduce == "fast", config, key,
      "got {} with parallel.reduce = \"tree\", expected \"fast\": a tree has the same bits for any number of "
      "ranks, and codes are of what each rank has summed",
      kind);
  if (kind == "bf16" || kind == "int8") return;
  if (p.zero > 1 || p.zero_shard > 0)
    refuse(config, key,
           "topk, powersgd and onebit-adam need parallel.zero = 0 or 1 without parallel.zero_shard",
           "got \"{}\" with parallel.{}, expected \"bf16\" or \"int8\"", kind,
           p.zero > 1 ? fmt::format("zero = {}", p.zero) : fmt::format("zero_shard = {}", p.zero_shard));
  if (kind != "onebit-adam") return;
  require(config.optimizer.name == "adamw", config, key,
          "got onebit-adam with optimizer.name = \"{}\", expected adamw", config.optimizer.name);
  require(p.error_feedback, config, "parallel.error_feedback",
          "got false with parallel.compression = \"onebit-adam\", expected true");
  if (p.compression_warmup == 0)
    refuse(config, "parallel.compression_warmup", "15 to 25 % of train.steps",
           "got 0 with parallel.compression = \"onebit-adam\", expected at least one step of plain Adam, "
           "which finds "
           "the variance");
}

// Shards are shared by some of the ranks of parallel.dp.
void check_hybrid_sharding(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::string key = "parallel.zero_shard";
  if (p.zero_shard == 0) return;
  require(p.zero > 0, config, key, "got {} with parallel.zero = 0, expected parallel.zero = 1, 2 or 3",
          p.zero_shard);
  require(p.zero_shard > 1, config, key,
          "got 1, expected 0 (all ranks of parallel.dp) or at least 2: parallel.zero = 0 keeps all on every "
          "rank");
}

// Whether the ranks of a group over `ep` compute the same grains (comm/mesh.h): it lies within tp and cp.
bool shares_a_grain(const ParallelConfig& p, int64_t ep) {
  return p.cp * std::gcd(ep, p.tp) % ep == 0;
}

// Who computes a grain depends on clocks then, so no result may.
void check_balance(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::string key = "parallel.balance";
  if (p.balance != "speed") return;
  require(
      p.servers == 0 || p.consistency == "sync", config, key,
      "got \"speed\" with parallel.consistency = \"{}\", expected \"even\": both say how ranks of unequal "
      "speed go together (nobody waits for a slow one there, and no step is common to all, from which shares "
      "could change)",
      p.consistency);
  require(p.reduce == "tree", config, key,
          "got \"speed\" with parallel.reduce = \"{}\", expected \"tree\", whose bits do not depend on who "
          "computes what",
          p.reduce);
  require(
      p.zero <= 1, config, key,
      "got \"speed\" with parallel.zero = {}, expected 0 or 1: each round of the others sums one grain of "
      "every rank and lasts as long as the slowest takes, so no shares are faster than even ones",
      p.zero);
  int64_t nearest = p.ep;
  while (config.model.experts % std::max<int64_t>(1, nearest) != 0 || !shares_a_grain(p, nearest)) --nearest;
  if (nearest != p.ep)
    refuse(
        config, key, fmt::format("the nearest is parallel.ep = {}", nearest),
        "got \"speed\" with parallel.ep = {}, parallel.tp = {} and parallel.cp = {}, expected experts that "
        "are shared "
        "by ranks of one grain: rows of several grains would meet in one product, whose bits depend on which",
        p.ep, p.tp, p.cp);
}

// Weights are compared, and kept as the run's result, only where all groups have the same.
void check_two_speed(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::string key = "parallel.sync_every";
  if (p.sync_every == 0) return;
  require(config.train.steps % p.sync_every == 0, config, key,
          "got {}, expected a divisor of train.steps = {}", p.sync_every, config.train.steps);
  require(config.train.eval_every % p.sync_every == 0, config, key,
          "got {}, expected a divisor of train.eval_every = {}", p.sync_every, config.train.eval_every);
}

// Servers keep what ZeRO would cut in another way, and sum as they are sent; without a common update
// of all workers there is no order of grains and no load of a step.
void check_parameter_servers(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::string key = "parallel.servers";
  if (p.servers == 0) {
    require(p.replay.empty(), config, "parallel.replay", "got '{}' without parallel.servers, expected none",
            printable(p.replay));
    return;
  }
  for (const auto& [axis, size] : {std::pair{"tp", p.tp}, {"pp", p.pp}, {"ep", p.ep}})
    if (size > 1)
      refuse(
          config, key,
          "use parallel.zero = 1: it shares out the optimizer's state, goes with tp, pp and ep, and computes "
          "what synchronous servers would, to the bit",
          "got {} with parallel.{} = {}, expected parallel.{} = 1: every worker has the whole model, and "
          "parallel.dp and parallel.cp share out the work",
          p.servers, axis, size, axis);
  require(p.zero == 0, config, key,
          "got {} with parallel.zero = {}, expected parallel.zero = 0: masters and the optimizer's state are "
          "shared out "
          "over the servers",
          p.servers, p.zero);
  require(
      p.sync_every == 0, config, key,
      "got {} with parallel.sync_every = {}, expected parallel.sync_every = 0: both say who may be ahead of "
      "whom, and workers have no optimizer to make steps of their own with (parallel.staleness is how far "
      "they may be)",
      p.servers, p.sync_every);
  if (p.compression != "none" && p.compression != "bf16" && p.compression != "int8")
    refuse(config, key, "use parallel.compression = \"int8\" or \"bf16\"",
           "got {} with parallel.compression = \"{}\", expected none, bf16 or int8: a push is coded block by "
           "block, without what other workers or servers have",
           p.servers, p.compression);
  const bool sync = p.consistency == "sync";
  require(sync || config.model.router_bias_rate == 0.0, config, key,
          "got {} with parallel.consistency = \"{}\" and model.router_bias_rate = {}, expected 0: it moves "
          "by the load of a "
          "whole step",
          p.servers, p.consistency, config.model.router_bias_rate);
  require(
      sync || p.reduce == "fast", config, "parallel.reduce",
      "got \"tree\" with parallel.consistency = \"{}\", expected \"fast\": there is no sum of all workers",
      p.consistency);
  require(!sync || p.replay.empty(), config, "parallel.replay",
          "got '{}' with parallel.consistency = \"sync\", expected none: nothing is left to chance",
          printable(p.replay));
}

}  // namespace

void check_data_parallel(const Config& config) {
  check_compression(config);
  check_two_speed(config);
  check_hybrid_sharding(config);
  check_balance(config);
  check_parameter_servers(config);
}

}  // namespace athanor
