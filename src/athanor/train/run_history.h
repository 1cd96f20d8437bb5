// What a run's folder remembers of the run, so that none of its history is lost: whether it ever had a checkpoint, and
// what became of the process that trained it last.
//
//   runs/NAME/committed.json   written behind the first checkpoint, or when a start finds one
//
// Thread rule: one process writes at a time, the one that holds the run's lock. Errors: IoError of the Env.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "athanor/train/run_folder.h"

namespace athanor {

bool has_committed(Env& env, const RunFolder& folder);
void record_commit(Env& env, const RunFolder& folder, int64_t step);  // nothing where that is recorded

// For a start that finds no checkpoint to go on from; `skipped` says why not from those that are there. Error where the
// run had one: step 1 again would bury what it did.
void check_may_begin(Env& env, const RunFolder& folder, const std::vector<std::string>& skipped);

// What report.json says of the process that trains or trained a run.
struct RunStatus {
  std::string
      status;  // running, finished, interrupted, failed; dead: "running", and nobody holds the run's lock
  std::string reason, host;
  int64_t pid = 0, steps = 0;
};
// None where there is no report. `holds_lock`: the caller holds the run's lock itself.
std::optional<RunStatus> run_status(Env& env, const std::string& run_folder, bool holds_lock = false);

}  // namespace athanor
