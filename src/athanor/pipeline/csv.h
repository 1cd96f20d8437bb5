// Schedules as files: a line for each rank, its actions in order, separated by commas.
//
//   # anything                      a line that starts with # is a remark
//   0F0,0F1,0I0,0W0,0I1,0W1         rank 0: forward of stage 0, micro-batch 0; ...
//   1F0,1I0,1F1,1I1,1W0,1W1         rank 1
//
// The number before the letter is the stage, the one behind it the micro-batch (see pipeline/schedule.h).
// This is the layout of torch.distributed.pipelining's compute-only files as well. Spaces, empty cells and
// empty lines count for nothing. A stage is on the rank in whose line it stands; how many stages and
// micro-batches there are is what occurs. Errors: Error naming line and cell for what is no action; IoError
// for files. A schedule that was read is validated. Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "athanor/base/file.h"
#include "athanor/pipeline/schedule.h"

namespace athanor {

std::string to_csv(const Schedule& schedule);
Schedule parse_csv(std::string_view text, const std::string& name);  // `name` becomes the schedule's
Schedule load_schedule(Env& env, const std::string& path);

}  // namespace athanor
