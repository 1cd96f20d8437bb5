#include "athanor/train/layout.h"

#include <fmt/format.h>

#include "athanor/base/error.h"

namespace athanor {

MeshShape mesh_shape(const Config& config, int world_size) {
  const auto tp = static_cast<int>(config.parallel.tp);
  const int dp = config.parallel.dp != 0 ? static_cast<int>(config.parallel.dp) : world_size / tp;
  return {.dp = dp, .tp = tp};
}

void check_ranks(const Config& config, int world_size) {
  const int64_t dp = config.parallel.dp, tp = config.parallel.tp;
  if (world_size % tp != 0 || world_size < tp)
    throw ConfigError(
        fmt::format("parallel.tp: got {} in a world of {} ranks, expected a divisor of them", tp, world_size),
        "a model is shared by parallel.tp ranks each time");
  const int64_t left = world_size / tp;
  if (dp != 0 && dp != left)
    throw ConfigError(fmt::format("parallel.dp: got {} in a world of {} ranks{}, expected \"auto\" or {}", dp,
                                  world_size, tp > 1 ? fmt::format(" with parallel.tp = {}", tp) : "", left));
  const TrainConfig& t = config.train;
  const int64_t grains = (t.global_batch + t.micro_batch - 1) / t.micro_batch;
  if (left > grains)
    throw ConfigError(
        fmt::format("parallel.dp: got {} ranks for the {} grains of a step (train.global_batch {} / "
                    "train.micro_batch {}), expected at most {}",
                    left, grains, t.global_batch, t.micro_batch, grains),
        "start fewer ranks or lower train.micro_batch");
}

}  // namespace athanor
