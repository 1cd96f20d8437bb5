// Opens the metrics.jsonl of an earlier start without losing anything. Lines up to the checkpoint stay, lines of later
// steps move to metrics.abandoned.jsonl, and lines that are no metrics move to metrics.damaged.jsonl, both in the same
// folder. Each line has the generation that wrote it (docs/run_folder.md), wherever it lies.
//
//   const MetricsHistory found = open_history(env, "runs/first/metrics.jsonl", resumed_step);
//
// A byte-order mark, carriage returns and empty lines are ignored. An incomplete last line was being written when the
// process died, and is dropped. A kill at any instant loses nothing and moves no line twice. Errors: IoError of the
// Env; metrics.jsonl is then unchanged. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "athanor/base/file.h"

namespace athanor::observe {

struct MetricsHistory {
  std::string kept, abandoned, damaged;             // lines with their ends
  int64_t last_step = 0;                            // of the kept lines; 0: none
  int64_t first_abandoned = 0, last_abandoned = 0;  // steps
  int64_t num_damaged = 0, first_damaged_line = 0;  // from 1
};

MetricsHistory sort_history(std::string_view text, int64_t resumed_step);
// The same for a file. When it returns, the file has only the kept lines.
MetricsHistory open_history(Env& env, const std::string& path, int64_t resumed_step);

// The newest generation that has written into this file or the abandoned lines beside it; -1 where none has. Lines without
// a generation are of 0.
int64_t last_generation(Env& env, const std::string& path);

}  // namespace athanor::observe
