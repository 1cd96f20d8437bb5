#include "athanor/layout/stages.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/pipeline/csv.h"

namespace athanor::layout {
namespace {

Schedule schedule_of_file(const Layout& layout, int64_t micro_batches) {
  Schedule schedule;
  try {
    schedule = parse_csv(layout.schedule_csv, layout.schedule);
  } catch (const Error& error) {
    throw ConfigError(fmt::format("parallel.schedule: {}", error.what()));
  }
  if (schedule.num_ranks() != layout.pp)
    throw ConfigError(fmt::format("parallel.pp: got {} ranks for '{}', expected its {}", layout.pp,
                                  layout.schedule, schedule.num_ranks()));
  if (schedule.micro_batches < micro_batches)
    throw ConfigError(fmt::format(
        "parallel.schedule: got {} micro-batches in '{}', expected at least the {} that a rank of "
        "parallel.dp {} of a step",
        schedule.micro_batches, layout.schedule, micro_batches,
        layout.shares == Shares::by_speed ? "may have" : "has"));
  if (layout.virtual_stages > 0 && schedule.num_stages() != layout.pp * layout.virtual_stages)
    throw ConfigError(fmt::format("parallel.virtual_stages: got {} for '{}', expected {} stages in all",
                                  layout.virtual_stages, layout.schedule, schedule.num_stages()));
  return without_surplus(std::move(schedule), static_cast<int>(micro_batches));
}

}  // namespace

Schedule pipeline_schedule(const Layout& layout, int64_t micro_batches) {
  if (layout.schedule.ends_with(".csv")) return schedule_of_file(layout, micro_batches);
  try {
    return make_schedule(layout.schedule, {.ranks = layout.pp,
                                           .micro_batches = static_cast<int>(micro_batches),
                                           .virtual_stages = static_cast<int>(layout.virtual_stages)});
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("parallel.schedule: {}", error.what()), error.hint());
  }
}

std::vector<int64_t> even_stage_layers(int64_t layers, int64_t stages) {
  if (stages < 1 || layers < stages)
    throw ConfigError(
        fmt::format("pipeline: got {} stages for {} layers, expected 1 to {}", stages, layers, layers));
  std::vector<int64_t> counts(static_cast<size_t>(stages), layers / stages);
  // Surplus layers: the middle stages, then the first, then the last.
  for (int64_t left = layers % stages, i = 0; i < left; ++i)
    ++counts[static_cast<size_t>(i + 1 < stages - 1 ? i + 1 : i + 1 == stages - 1 ? 0 : stages - 1)];
  return counts;
}

}  // namespace athanor::layout
