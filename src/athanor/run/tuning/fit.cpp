#include "athanor/run/tuning/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/checkpoint/rank_lists.h"
#include "athanor/engine/device.h"
#include "athanor/run/plans.h"

namespace athanor::run::tuning {

Fit fit_of(const Run& run, const MemoryPlan& now, const Config& config, Group& group, uint64_t held_bytes) {
  Fit fit;
  const std::string what = fmt::format("train.micro_batch_size = {}", config.train.micro_batch_size);
  const uint64_t device_bytes = free_device_bytes(*run.queue);
  const auto sharing = static_cast<uint64_t>(device_bytes > 0 ? 1 : run.io.ranks_of_host);
  const uint64_t own_bytes = std::min(run.arena.usage().reserved_total + held_bytes, now.usage.peak_total);
  const uint64_t free_bytes = device_bytes > 0 ? device_bytes : run.io.available_memory();
  try {
    PlanRequest request = now.request;
    request.config = config;
    request.layout = layout_of(run, config, group);
    fit.plan = plan_recompute(request);
    const uint64_t needed_bytes = fit.plan->usage.peak_total, there_bytes = free_bytes / sharing + own_bytes;
    if (free_bytes > 0 && needed_bytes > there_bytes)
      fit.why_not =
          fmt::format("{} needs {} bytes on a rank, and there are {}", what, needed_bytes, there_bytes);
  } catch (const Failure& error) {
    fit.why_not = fmt::format("{}: {}", what, error.what());
  }
  const std::vector<std::string> of_ranks = gather_texts(group, fit.why_not, "another micro-batch size");
  const auto first =
      std::find_if(of_ranks.begin(), of_ranks.end(), [](const std::string& why) { return !why.empty(); });
  if (first != of_ranks.end()) fit.why_not = *first;
  return fit;
}

}  // namespace athanor::run::tuning
