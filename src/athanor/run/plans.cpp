#include "athanor/run/plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/engine/device.h"
#include "athanor/layout/elastic.h"
#include "athanor/run/agreement.h"

namespace athanor::run {
namespace {

// A refusal names the phase that it is about.
template <typename Work>
auto in_phase(const RunPhase& phase, const Work& work) {
  try {
    return work();
  } catch (const ConfigError& error) {
    if (phase.name.empty()) throw;
    throw ConfigError(phase.text() + ": " + error.what(), error.hint());
  } catch (const Error& error) {
    if (phase.name.empty()) throw;
    throw Error(phase.text() + ": " + error.what(), error.hint());
  }
}

// None: that of a rank does not fit.
std::optional<MemoryPlan> plan_if_all_fit(const Run& run, const PlanRequest& request, Group& group) {
  std::optional<MemoryPlan> plan;
  try {
    plan = plan_that_fits(request, run.io.ranks_of_host);
  } catch (const ConfigError&) {
    throw;
  } catch (const Error&) {  // does not fit
  }
  double without = plan ? 0.0 : 1.0;
  group.all_reduce(&without, 1, Dtype::f64, "snapshot").wait();
  if (without != 0.0) plan.reset();
  return plan;
}

// The plan of a phase, with the slots of its snapshots where it may have them: on all ranks or on none.
MemoryPlan plan_with_snapshot(const Run& run, PlanRequest request, Group& group,
                              const std::optional<int>& slots_there, bool is_now) {
  request.snapshot =
      choose_snapshot(request.config, *request.layout, run.has_slots(), run.slot_saves.are_possible);
  request.device_bytes = free_device_bytes(*run.queue);
  if (slots_there) {
    if (is_now || request.snapshot.num_slots > *slots_there) request.snapshot.num_slots = *slots_there;
    return plan_memory(request);
  }
  while (request.snapshot.may_be_two || request.snapshot.may_be_off) {
    if (auto plan = plan_if_all_fit(run, request, group)) return std::move(*plan);
    if (std::exchange(request.snapshot.may_be_two, false))
      request.snapshot.num_slots = 2;
    else
      request.snapshot = {.why = "there is no memory for them"};
  }
  return plan_that_fits(std::move(request), run.io.ranks_of_host);
}

}  // namespace

Layout layout_of(const Run& run, const Config& config, Group& group) {
  const layout::Ranks ranks{.world_size = group.size(), .ranks_of_host = run.io.ranks_of_host};
  return run.world->generation() > 0 ? elastic_layout(config, ranks) : make_layout(config, ranks);
}

std::vector<Layout> layouts_of(const Run& run, Group& group) {
  std::vector<Layout> layouts;
  for (const RunPhase& phase : run.phases) {
    if (counts_hosts(phase.config))
      agree(group, {{"ranks of the host", fmt::format("{}", run.io.ranks_of_host)}},
            "groups of local_sgd.sync_interval need as many ranks on every host");
    layouts.push_back(in_phase(phase, [&] {
      Layout layout = layout_of(run, phase.config, group);
      choose_snapshot(phase.config, layout, /*is_launched=*/false);  // refuses what cannot be
      return layout;
    }));
  }
  return layouts;
}

std::vector<MemoryPlan> plan_phases(const Run& run, const std::vector<Layout>& layouts, Group& group,
                                    const std::optional<int>& slots_there) {
  std::vector<MemoryPlan> plans;
  uint64_t snapshot_bytes = 0;
  for (const RunPhase& phase : run.phases) {
    plans.push_back(in_phase(phase, [&] {
      return plan_with_snapshot(run,
                                {.config = phase.config,
                                 .num_channels = static_cast<int64_t>(phase.data.channels.size()),
                                 .rank = group.rank(),
                                 .world_size = group.size(),
                                 .layout = layouts[plans.size()],
                                 .snapshot_before_bytes = snapshot_bytes,
                                 .snapshot_after = &phase != &run.phases.back()},
                                group, slots_there, &phase == &run.phase());
    }));
    snapshot_bytes = plans.back().snapshot_bytes;
  }
  return plans;
}

uint64_t most_bytes(const std::vector<MemoryPlan>& plans) {
  uint64_t most = 0;
  for (const MemoryPlan& plan : plans) most = std::max(most, plan.usage.peak_total);
  return most;
}

}  // namespace athanor::run
