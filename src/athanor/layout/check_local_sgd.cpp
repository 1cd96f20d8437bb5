// local_sgd: dp is whole replica groups, each of whole shards and whole ep groups.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/layout/check.h"

namespace athanor::layout {

void check_local_sgd(const Config& config, const Request& request) {
  if (config.local_sgd.sync_interval == 0) return;
  const ParallelConfig& p = config.parallel;
  const int dp = request.dp, ranks = request.group_size;
  const int64_t sharing = p.tp * p.cp, shard = std::max<int64_t>(1, p.shard_degree);
  if (dp % ranks != 0)
    throw ConfigError(
        fmt::format("local_sgd.group_size: got {} of parallel.dp = {} ranks, expected a divisor", ranks, dp),
        "replica groups have one size");
  if (ranks % shard != 0) {
    int64_t nearest = std::min<int64_t>(shard, ranks);
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
}

}  // namespace athanor::layout
