// What a start finds in metrics.jsonl, and how nothing of it is lost: lines up to the checkpoint stay, those of later steps
// go to metrics.abandoned.jsonl, what is no line of metrics goes to metrics.damaged.jsonl, both beside it.
//
//   const MetricsHistory found = open_history(env, "runs/first/metrics.jsonl", resumed_step);
//
// A mark that an editor puts before the first line, carriage returns and empty lines mean nothing; a last line without its
// end that is no whole one was being written when the process died, and is dropped. A kill at any instant loses nothing and
// sets nothing aside twice. Errors: IoError of the Env, with metrics.jsonl as it was. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "athanor/base/file.h"

namespace athanor {

struct MetricsHistory {
  std::string kept, abandoned, damaged;             // lines with their ends
  int64_t last_step = 0;                            // of those kept; 0: none
  int64_t first_abandoned = 0, last_abandoned = 0;  // steps
  int64_t num_damaged = 0, first_damaged_line = 0;  // from 1
};

MetricsHistory sort_history(std::string_view text, int64_t resumed_step);
// The same of a file, which has only what is kept when this returns.
MetricsHistory open_history(Env& env, const std::string& path, int64_t resumed_step);

}  // namespace athanor
