// Schedules as CSV files: a line per rank, its actions in order, separated by commas.
//
//   # anything                      a line that starts with # is a comment
//   0F0,0F1,0I0,0W0,0I1,0W1         rank 0: forward of stage 0, micro_batch 0; ...
//   1F0,1I0,1F1,1I1,1W0,1W1         rank 1
//
//   const Schedule schedule = load_schedule(env, "mine.csv");
//
// The number before the letter is the stage, the number after it the micro-batch (pipeline/schedule.h). It is also the
// format of torch.distributed.pipelining's compute-only files. Spaces, empty cells and empty lines are ignored. A stage
// belongs to the rank in whose line it occurs; the numbers of stages and micro-batches are those that occur. Schedules
// are validated after reading. Errors: Error naming line and cell of a malformed action; IoError for files. Thread
// rule: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "athanor/base/file.h"
#include "athanor/pipeline/schedule.h"

namespace athanor::pipeline {

std::string to_csv(const Schedule& schedule);
Schedule parse_csv(std::string_view text, const std::string& name);  // `name` becomes the schedule's
Schedule load_schedule(Env& env, const std::string& path);

}  // namespace athanor::pipeline
