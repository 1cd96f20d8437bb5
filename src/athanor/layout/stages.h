// The stages of a pipeline: its schedule for a number of micro-batches, and how the blocks of a model are shared among
// its stages.
//
//   const Schedule schedule = pipeline_schedule(layout, 8);
//   even_stage_layers(/*layers=*/10, /*stages=*/4);      // 2 3 3 2
//
// Errors: ConfigError where there is no such schedule, or where the stages do not fit the layers.
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/layout/layout.h"
#include "athanor/pipeline/schedule.h"

namespace athanor::layout {

// The layout's schedule. One rank computes one micro-batch after the other.
Schedule pipeline_schedule(const Layout& layout, int64_t micro_batches);

// As even as possible. Surplus layers go to the middle stages first, then to the first stage, and to the last stage at
// the end, since it also computes the head. ConfigError where there are fewer layers than stages.
std::vector<int64_t> even_stage_layers(int64_t layers, int64_t stages);

}  // namespace athanor::layout
