#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "athanor/base/human.h"
#include "athanor/config/refuse.h"
#include "athanor/config/validate_parts.h"

namespace athanor::config {
namespace {

// The tree sums f32 gradients of micro-batches; compression encodes the gradient that a rank has accumulated.
void check_compression(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const CompressionConfig& compression = config.compression;
  const std::string key = "compression.method", &kind = compression.method;
  if (kind == "none") return;
  require(
      p.reduce == "fast", config, key,
      "got {} with parallel.reduce = \"tree\", expected \"fast\": the bits of a compressed sum depend on the "
      "number of ranks",
      kind);
  if (kind == "bf16" || kind == "int8") return;
  if (p.zero_stage > 1 || p.shard_degree > 0)
    refuse(config, key,
           "topk, powersgd and onebit-adam need parallel.zero_stage = 0 or 1 without parallel.shard_degree",
           "got \"{}\" with parallel.{}, expected \"bf16\" or \"int8\"", kind,
           p.zero_stage > 1 ? fmt::format("zero_stage = {}", p.zero_stage)
                            : fmt::format("shard_degree = {}", p.shard_degree));
  if (kind != "onebit-adam") return;
  require(config.optimizer.name == "adamw", config, key,
          "got onebit-adam with optimizer.name = \"{}\", expected adamw", config.optimizer.name);
  require(compression.error_feedback, config, "compression.error_feedback",
          "got false with compression.method = \"onebit-adam\", expected true");
  if (compression.warmup_steps == 0)
    refuse(config, "compression.warmup_steps", "15 to 25 % of train.steps",
           "got 0 with compression.method = \"onebit-adam\", expected at least one step of plain Adam, "
           "which estimates the second moment");
}

// A shard group is some of the ranks of parallel.dp.
void check_hybrid_sharding(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::string key = "parallel.shard_degree";
  if (p.shard_degree == 0) return;
  require(p.zero_stage > 0, config, key,
          "got {} with parallel.zero_stage = 0, expected parallel.zero_stage = 1, 2 or 3", p.shard_degree);
  require(p.shard_degree > 1, config, key,
          "got 1, expected 0 (all ranks of parallel.dp) or at least 2; for no sharding use "
          "parallel.zero_stage = 0");
}

// Whether the ranks of a group over `ep` compute the same micro-batches (comm/mesh.h): it lies within tp and cp.
bool shares_a_micro_batch(const ParallelConfig& p, int64_t ep) {
  return p.cp * std::gcd(ep, p.tp) % ep == 0;
}

// Which rank computes a micro-batch depends on measured times, so results may not depend on the rank.
void check_balance(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const ParameterServerConfig& ps = config.parameter_server;
  const std::string key = "parallel.load_balance";
  if (p.load_balance != "speed") return;
  require(ps.servers == 0 || ps.consistency == "sync", config, key,
          "got \"speed\" with parameter_server.consistency = \"{}\", expected \"even\": asynchronous workers "
          "do not "
          "wait for each other, and there is no common step at which to rebalance",
          ps.consistency);
  require(p.reduce == "tree", config, key,
          "got \"speed\" with parallel.reduce = \"{}\", expected \"tree\", whose bits do not depend on which "
          "rank "
          "computes a micro-batch",
          p.reduce);
  require(p.zero_stage <= 1, config, key,
          "got \"speed\" with parallel.zero_stage = {}, expected 0 or 1: stages 2 and 3 reduce after every "
          "micro-batch, so each rank waits for the slowest in any case",
          p.zero_stage);
  int64_t nearest = p.ep;
  while (config.model.num_experts % std::max<int64_t>(1, nearest) != 0 || !shares_a_micro_batch(p, nearest))
    --nearest;
  if (nearest != p.ep)
    refuse(config, key, fmt::format("the nearest is parallel.ep = {}", nearest),
           "got \"speed\" with parallel.ep = {}, parallel.tp = {} and parallel.cp = {}, expected an ep group "
           "whose ranks compute the same micro-batch: otherwise one matrix product of an expert has rows of "
           "several micro-batches, and its bits depend on which",
           p.ep, p.tp, p.cp);
}

// Evaluation and the final checkpoint need weights that all replica groups have in common: those of an outer step.
void check_two_speed(const Config& config) {
  const LocalSgdConfig& local = config.local_sgd;
  const std::string key = "local_sgd.sync_interval";
  if (local.sync_interval == 0) return;
  require(config.train.steps % local.sync_interval == 0, config, key,
          "got {}, expected a divisor of train.steps = {}", local.sync_interval, config.train.steps);
  require(config.train.eval_every % local.sync_interval == 0, config, key,
          "got {}, expected a divisor of train.eval_every = {}", local.sync_interval,
          config.train.eval_every);
}

// Servers shard masters and optimizer state in their own way, so ZeRO has nothing left to shard. Asynchronous updates
// have no common order of micro-batches, and no load of experts over a whole step.
void check_parameter_servers(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const LocalSgdConfig& local = config.local_sgd;
  const CompressionConfig& compression = config.compression;
  const ParameterServerConfig& ps = config.parameter_server;
  const std::string key = "parameter_server.servers";
  if (ps.servers == 0) {
    require(ps.replay.empty(), config, "parameter_server.replay",
            "got '{}' without parameter_server.servers, expected none", printable(ps.replay));
    return;
  }
  for (const auto& [axis, size] : {std::pair{"tp", p.tp}, {"pp", p.pp}, {"ep", p.ep}})
    if (size > 1)
      refuse(
          config, key,
          "use parallel.zero_stage = 1: it shards the optimizer state, works with tp, pp and ep, and "
          "computes "
          "what synchronous servers would, to the bit",
          "got {} with parallel.{} = {}, expected parallel.{} = 1: every worker has the whole model; only dp "
          "and cp divide the work",
          ps.servers, axis, size, axis);
  require(
      p.zero_stage == 0, config, key,
      "got {} with parallel.zero_stage = {}, expected parallel.zero_stage = 0: master weights and optimizer "
      "state are sharded over the servers",
      ps.servers, p.zero_stage);
  require(local.sync_interval == 0, config, key,
          "got {} with local_sgd.sync_interval = {}, expected local_sgd.sync_interval = 0: workers have no "
          "optimizer for local steps (parameter_server.staleness lets them run ahead of each other)",
          ps.servers, local.sync_interval);
  if (compression.method != "none" && compression.method != "bf16" && compression.method != "int8")
    refuse(
        config, key, "use compression.method = \"int8\" or \"bf16\"",
        "got {} with compression.method = \"{}\", expected none, bf16 or int8: a push is compressed block by "
        "block, without an exchange between workers or servers",
        ps.servers, compression.method);
  const bool sync = ps.consistency == "sync";
  require(
      sync || config.model.router_bias_update_rate == 0.0, config, key,
      "got {} with parameter_server.consistency = \"{}\" and model.router_bias_update_rate = {}, "
      "expected 0: the bias follows the load of a whole step, and asynchronous workers have no common step",
      ps.servers, ps.consistency, config.model.router_bias_update_rate);
  require(sync || p.reduce == "fast", config, "parallel.reduce",
          "got \"tree\" with parameter_server.consistency = \"{}\", expected \"fast\": an update takes the "
          "gradients of one worker, so there is no sum over workers",
          ps.consistency);
  require(!sync || ps.replay.empty(), config, "parameter_server.replay",
          "got '{}' with parameter_server.consistency = \"sync\", expected none: synchronous updates are "
          "reproducible without a recorded schedule",
          printable(ps.replay));
}

}  // namespace

void check_data_parallel(const Config& config) {
  check_compression(config);
  check_two_speed(config);
  check_hybrid_sharding(config);
  check_balance(config);
  check_parameter_servers(config);
}

}  // namespace athanor::config
