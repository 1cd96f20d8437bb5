// What a process remembers of its tuning from segment to segment (tuner.h): the steps that a try is judged against, and what a
// change of settings costs. Others of its world that have just joined get it from it. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "athanor/run/tuning/step_times.h"

namespace athanor::run::tuning {

struct TuningMemory {
  std::optional<StepTimes> before = {};  // under the settings that a try has replaced; none: not measured
  int64_t first_step = 0, ranks = 0;     // of the phase and the world in which it was
  double switch_seconds = 0.0;           // of the newest change
  double ended_at = -1.0;                // the last segment that ended for a change, by TrainIo::clock
  std::string told = {};                 // the newest that was said
};

}  // namespace athanor::run::tuning
