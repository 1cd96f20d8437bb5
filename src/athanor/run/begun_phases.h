// The phases that a run has begun, as its folder says.
//
//   for (const BegunPhase& phase : begun_phases(env, RunFolder(config).path, report, metrics.front().step))
//     print(phase.name + "\n");
//
// Those that are done are in the report; the one that goes on is the next of config.resolved.toml. None for a run without
// [[phase]], or whose files do not say. Thread rule: pure function of the files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/observe/phase_marks.h"
#include "athanor/run/report.h"

namespace athanor::run {

// `first_step`: of the run, from 1; above 1 where it goes on from a checkpoint of another one.
std::vector<BegunPhase> begun_phases(Env& env, const std::string& folder, const TrainReport& report,
                                     int64_t first_step);

}  // namespace athanor::run
