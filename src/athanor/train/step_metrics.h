// The line of metrics.jsonl of a step, out of what the step gave.
//
//   recorder.step(step_metrics(result, state, dataset.channels, {.seconds = seconds, .world_size = 2, ...}), total_steps);
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/data/channel.h"
#include "athanor/observe/metrics.h"
#include "athanor/train/state.h"
#include "athanor/train/step.h"

namespace athanor {

// What is measured around a step.
struct StepMeasures {
  double seconds = 0.0;
  double flops_per_token = 0.0;
  double peak_flops = 0.0;  // a second, of all ranks together; 0: not known yet, and no mfu
  int64_t peak_bytes = 0;   // of this rank
  int world_size = 1;
};

// `state` is that after the step. A channel without tokens in the step has no loss.
StepMetrics step_metrics(const StepResult& result, const TrainState& state,
                         const std::vector<Channel>& channels, const StepMeasures& measured);

}  // namespace athanor
