// Makes the metrics of a step (one line of metrics.jsonl) from its result.
//
//   const StepMetrics metrics = step_metrics(result, state, dataset.channels, {.seconds = seconds, .world_size = 2});
//   recorder.step(metrics, total_steps);
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/data/channel.h"
#include "athanor/engine/state.h"
#include "athanor/engine/step.h"
#include "athanor/observe/metrics.h"

namespace athanor::run {

// What is measured around a step.
struct StepMeasures {
  double seconds = 0.0;
  double flops_per_token = 0.0;
  double peak_flops = 0.0;  // FLOP/s of all ranks together; 0: not measured yet, and no mfu
  int64_t peak_bytes = 0;   // of this rank
  int world_size = 1;
  int64_t generation = 0;
};

// `state`: the state after the step. A channel without tokens in the step has no loss.
StepMetrics step_metrics(const StepResult& result, const TrainState& state,
                         const std::vector<Channel>& channels, const StepMeasures& measured);

}  // namespace athanor::run
