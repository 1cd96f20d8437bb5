// ep: the ranks of a stage are whole ep groups, with as many micro-batches where these span several, and shards that
// fit them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/layout/check.h"

namespace athanor::layout {
namespace {

void check_divides(const Config& config, const Request& request) {
  const int64_t ep = config.parallel.ep, ranks = request.dp * config.parallel.cp * config.parallel.tp;
  if (ranks % ep == 0) return;
  int64_t nearest = std::min(ep, ranks);
  while (ranks % nearest != 0 || config.model.num_experts % nearest != 0) --nearest;
  throw ConfigError(
      fmt::format("parallel.ep: got {} with {} ranks of a stage (dp x cp x tp), expected a divisor of them",
                  ep, ranks),
      fmt::format("the nearest is {}", nearest));
}

void check_equal_micro_batches(const Config& config, const Request& request) {
  const int64_t micro_batches = micro_batches_of_step(config.train), dp = request.dp;
  if (request.layout.expert_parts() > 0 || micro_batches % dp == 0) return;
  throw ConfigError(fmt::format("parallel.ep: got {} with {} micro-batches of a step for {} ranks of "
                                "parallel.dp, expected as many "
                                "micro-batches on each: they exchange tokens in every layer of experts",
                                config.parallel.ep, micro_batches, dp),
                    fmt::format("the nearest is train.global_batch_size = {}",
                                (micro_batches + dp - 1) / dp * dp * config.train.micro_batch_size));
}

// Whether a shard group fits ep: it has equally many ranks for every expert, or at most one for each.
bool fits_experts(const ParallelConfig& p, int64_t shard) {
  const int64_t ranks = shard * p.cp * p.tp;
  return ranks <= p.ep || ranks % p.ep == 0;
}

void check_shards(const ParallelConfig& p, int64_t dp) {
  if (p.shard_degree == 0 || fits_experts(p, p.shard_degree)) return;
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

void check_experts(const Config& config, const Request& request) {
  if (config.parallel.ep == 1) return;
  check_divides(config, request);
  check_equal_micro_batches(config, request);
  check_shards(config.parallel, request.dp);
}

}  // namespace athanor::layout
