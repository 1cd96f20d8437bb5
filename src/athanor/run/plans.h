// The layout and the memory plan of each phase of a run, in the world that it has.
//
//   const std::vector<Layout> layouts = layouts_of(run, group);        // an illegal one is refused before data is read
//   std::vector<MemoryPlan> plans = plan_phases(run, layouts, group, {});  // what does not fit, before the first step of any
//
// Collective. Errors: ConfigError and Error that name the phase. Thread rule: one thread per rank.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "athanor/engine/memory_plan.h"
#include "athanor/layout/layout.h"
#include "athanor/run/run.h"

namespace athanor::run {

// Of a config of a phase. In a world after the first one the ranks may be others than the config was made for
// (layout/elastic.h).
Layout layout_of(const Run& run, const Config& config, Group& group);
std::vector<Layout> layouts_of(const Run& run, Group& group);
// `slots_there`: their memory is in use already, by this very run, with so many slots: what is free says nothing.
std::vector<MemoryPlan> plan_phases(const Run& run, const std::vector<Layout>& layouts, Group& group,
                                    const std::optional<int>& slots_there);
uint64_t most_bytes(const std::vector<MemoryPlan>& plans);  // the largest need of any phase

}  // namespace athanor::run
