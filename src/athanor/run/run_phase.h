// A phase of a run with its data (config/phases.h). Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/config/config.h"
#include "athanor/data/dataset.h"

namespace athanor::run {

// A run without phases is one with no name.
struct RunPhase {
  std::string name;
  int64_t first_step, last_step;  // of the run, both included
  Config config;                  // of which train.steps is last_step: a segment ends there
  Config said = {};               // the same without decisions of the run
  Dataset data = {};
  std::string text() const;  // "phase 'long context'", "the run"
};

}  // namespace athanor::run
