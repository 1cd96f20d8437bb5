// tp, cp, pp, dp: a model is shared by tp x cp x pp ranks each time, and the ranks that train are whole such models.
#include <fmt/format.h>

#include <utility>

#include "athanor/base/error.h"
#include "athanor/layout/check.h"

namespace athanor::layout {

void check_world(const Config& config, const Request& request) {
  const ParallelConfig& p = config.parallel;
  const int world_size = request.training_ranks;
  std::string axes;  // the axes that partition a model
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
  if (p.dp != 0 && p.dp != request.dp)
    throw ConfigError(fmt::format("parallel.dp: got {} in a world of {} ranks{}, expected \"auto\" or {}",
                                  p.dp, world_size, axes.empty() ? "" : " with " + axes, request.dp));
}

}  // namespace athanor::layout
