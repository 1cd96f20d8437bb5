// A run's history in its folder: whether it ever had a checkpoint, and what became of the last process that trained it.
//
//   record_commit(env, folder, step);                            // after the first checkpoint
//   check_may_begin(env, folder, skipped);                       // before a start at step 1
//   if (const auto status = run_status(env, path)) print(status->status);
//
//   runs/NAME/committed.json   written after the first checkpoint, or when a start finds one
//
// Thread rule: one process writes at a time, the one that holds the run's lock. Errors: IoError of the Env.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "athanor/run/run_folder.h"

namespace athanor::run {

bool has_committed(Env& env, const RunFolder& folder);
void record_commit(Env& env, const RunFolder& folder, int64_t step);  // does nothing if already recorded
void forget_commits(Env& env, const RunFolder& folder);  // all checkpoints are about to be removed

// Called at a start that finds no usable checkpoint. Error if the run ever had one, because starting again at step 1
// would overwrite its history. `skipped`: why the existing checkpoints cannot be used.
void check_may_begin(Env& env, const RunFolder& folder, const std::vector<std::string>& skipped);

// report.run.json, where the newest process was a launcher's, else report.json.
std::string last_report_name(Env& env, const std::string& run_folder);

// The state of the process that trains or trained a run, from report.json.
struct RunStatus {
  std::string status;  // running, finished, interrupted, failed; dead: report "running", but nobody trains it
  std::string reason, host;
  int64_t pid = 0, steps = 0;
};
// None where there is no report. `holds_lock`: the caller holds the run's lock itself.
std::optional<RunStatus> run_status(Env& env, const std::string& run_folder, bool holds_lock = false,
                                    const std::string& report_name = "report.json");

}  // namespace athanor::run
