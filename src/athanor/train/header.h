// What the console shows before the first step: where the run is kept, model, arithmetic, layout, memory plan, data.
#pragma once

#include <span>

#include "athanor/base/topology.h"
#include "athanor/data/channel.h"
#include "athanor/observe/console.h"
#include "athanor/train/memory_plan.h"
#include "athanor/train/setup.h"

namespace athanor {

Rows header_rows(const Config& config, const Training& training, std::span<const Channel> channels,
                 const MemoryPlan& plan, const Queue& queue, const Placement& placement, int world_size,
                 int64_t steps_done, const std::string& run_folder);

}  // namespace athanor
