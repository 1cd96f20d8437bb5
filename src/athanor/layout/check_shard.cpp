// replicate x shard (hybrid sharding): dp is whole shards. Whether a shard fits ep is asked in check_experts.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/layout/check.h"

namespace athanor::layout {

void check_shard(const Config& config, const Request& request) {
  const ParallelConfig& p = config.parallel;
  if (p.shard_degree == 0 || request.dp % p.shard_degree == 0) return;
  int64_t nearest = std::min<int64_t>(p.shard_degree, request.dp);
  while (request.dp % nearest != 0) --nearest;
  throw ConfigError(
      fmt::format("parallel.shard_degree: got {} for {} ranks of parallel.dp, expected a divisor",
                  p.shard_degree, request.dp),
      nearest > 1 ? fmt::format("the nearest is {}", nearest)
                  : "parallel.shard_degree = 0 shards over all of them");
}

}  // namespace athanor::layout
