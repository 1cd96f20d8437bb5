// The folder of a run: runs/NAME with metrics, checkpoints, logs, traces and reports (docs/architecture.md).
//
//   const RunFolder folder(config);
//   const FolderLock lock = lock_run(folder.path);
//   const std::string metrics = folder.file("metrics.jsonl"), checkpoints = folder.checkpoints();
//
// Errors: Error for a run that another process trains; ConfigError for a change that a resumed run may not have. Thread
// rule: pure functions of the config and the file system.
#pragma once

#include <string>

#include "athanor/base/file.h"
#include "athanor/checkpoint/format/staged_folder.h"
#include "athanor/config/config.h"

namespace athanor::run {

struct RunFolder {
  explicit RunFolder(const Config& config) : path(join_path(config.train.runs, config.train.name)) {}
  std::string path;
  std::string file(const std::string& name) const { return join_path(path, name); }
  std::string checkpoints() const { return file("checkpoints"); }
};

// Names the run to those who hold its snapshots.
std::string run_identity(const RunFolder& folder);

// Of all that is kept in a run's folder, its checkpoints apart (checkpoint/format/manifest.h). 2: settings and metrics have the
// field's names. env.json has it.
constexpr int64_t kRunFormat = 2;

// FormatError (base/format_version.h) where the folder is a run of another format; nothing where it is none.
void check_run_format(Env& env, const std::string& run_folder);

// Two processes that train the same run would cut each other's metrics. One that was killed a moment ago may still be on
// its way out: Error after two seconds.
FolderLock lock_run(const std::string& run_folder);

// Refuses to continue a run at `step` whose model, data or seed changed: ConfigError naming the first such key, what
// the run had and what the config says. Steps, layout, evaluation and checkpoint settings may change, and phases that
// have not begun; those that are done may not.
void check_resumable(const Config& then, const Config& now, int64_t step, const std::string& data_then,
                     const std::string& data_now);

// Refuses to go on from a checkpoint of another run (`from`) whose model, optimizer, precision or seed is not the
// config's: ConfigError as above. Data, batches and lengths may differ.
void check_continues(const Config& then, const Config& now, const std::string& from);

}  // namespace athanor::run
