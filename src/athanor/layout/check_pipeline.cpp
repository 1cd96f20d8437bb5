// pp: a schedule for as many micro-batches as a rank may get, and layers for all of its stages.
#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/layout/check.h"
#include "athanor/layout/stages.h"

namespace athanor::layout {
namespace {

// The most micro-batches that a dp rank can get in a step. Shared by speed, every other rank (with local SGD, of its
// replica group) may be left with one.
int64_t most_micro_batches(const Config& config, int64_t dp) {
  const int64_t micro_batches = micro_batches_of_step(config.train), group = config.local_sgd.group_size;
  if (config.parallel.load_balance != "speed") return (micro_batches + dp - 1) / dp;
  const bool has_replica_groups = config.local_sgd.sync_interval > 0 && group > 0 && dp % group == 0;
  const int64_t replica_groups = has_replica_groups ? dp / group : 1;
  return (micro_batches + replica_groups - 1) / replica_groups - (dp / replica_groups - 1);
}

void check_stages(const Config& config, const Schedule& schedule) {
  const ParallelConfig& p = config.parallel;
  const int64_t stages = schedule.num_stages(), layers = config.model.num_hidden_layers;
  if (p.stage_layers.empty() && stages > layers) {
    const int64_t of_rank = stages / p.pp, fitting = layers / of_rank;
    throw ConfigError(
        fmt::format(
            "parallel.pp: got {} ranks with {} stage{} each for {} layers, expected at most {} stages "
            "in all",
            p.pp, of_rank, of_rank == 1 ? "" : "s", layers, layers),
        fitting >= 1 ? fmt::format("the nearest with this schedule is parallel.pp = {}", fitting)
                     : "the nearest is parallel.schedule = \"1f1b\", which has one stage of a rank");
  }
  if (!p.stage_layers.empty() && std::ssize(p.stage_layers) != stages)
    throw ConfigError(
        fmt::format("parallel.stage_layers: got {} stages, expected the {} of schedule '{}' on "
                    "parallel.pp = {} ranks",
                    p.stage_layers.size(), stages, p.schedule, p.pp));
}

}  // namespace

void check_pipeline(const Config& config, const Request& request) {
  const ParallelConfig& p = config.parallel;
  if (p.pp == 1 && !p.schedule.ends_with(".csv")) return;  // a file says how many ranks it is for
  check_stages(config, pipeline_schedule(request.layout, most_micro_batches(config, request.dp)));
  const int64_t micro_batches = micro_batches_of_step(config.train), dp = request.dp;
  if (p.zero_stage >= 2 && micro_batches % dp != 0)
    throw ConfigError(fmt::format("parallel.zero_stage: got {} with parallel.pp = {} and {} micro-batches of "
                                  "a step for {} ranks of "
                                  "parallel.dp, expected as many micro-batches on each",
                                  p.zero_stage, p.pp, micro_batches, dp),
                      fmt::format("the nearest is parallel.zero_stage = 1, or train.global_batch_size = {}",
                                  (micro_batches + dp - 1) / dp * dp * config.train.micro_batch_size));
}

}  // namespace athanor::layout
