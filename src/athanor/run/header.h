// What the console shows before the first step: run folder, model, precision, layout, memory plan, data.
//
//   console.header(title, header_rows(config, training, channels, plan, queue, placement, 0, folder));
//
// Thread rule: a pure function.
#pragma once

#include <span>

#include "athanor/base/topology.h"
#include "athanor/data/channel.h"
#include "athanor/engine/memory_plan.h"
#include "athanor/engine/setup.h"
#include "athanor/observe/console.h"

namespace athanor::run {

Rows header_rows(const Config& config, const Training& training, std::span<const Channel> channels,
                 const MemoryPlan& plan, const Queue& queue, const Placement& placement, int64_t steps_done,
                 int64_t first_step /* of the phase */, const std::string& run_folder);

}  // namespace athanor::run
