// What the launcher says when a job has failed, below the line that names the rank: where, when and why, what the others did as a
// count, and what the rank wrote at last. At most a screen.
//
//   FailureReport report{.host = "node7", .process = 4242, .step = 41, .generation = 0, .why = meaning_of(end)};
//   report.lines = output.last_words(1).lines;
//   print(text_of(report));
//
// prints
//
//       where: process 4242 on node7, after step 41
//       when: 2026-05-01T12:00:00.123Z, 0.8 s after that step
//       why: the kernel killed it for want of memory: ...
//       hardware: since the start 1 uncorrected memory error on mc0
//       others: 2 ranks failed after it; 3 lines of other ranks are not shown
//       its last output: runs/first/logs/rank1.output, which ends with
//         reading shard 7
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::launch::diagnosis {

struct FailureReport {
  std::string host{};
  int64_t process = 0;
  int64_t step = -1, generation = -1;  // the last that was done; -1: none is known
  double wall_seconds = 0.0;           // when it was seen, since 1970
  double seconds_after_step = -1.0;    // negative: none is known
  std::string why{};                   // "": the first line says it
  std::string hardware{};              // what the machine has counted since the start (hardware_counters.h)
  int num_others = 0, num_other_lines = 0;
  std::vector<std::string> lines{};
  std::string file{};         // with what all ranks wrote at last; "": none
  std::string not_written{};  // why there is none
};

std::string text_of(const FailureReport& report);  // without a newline at the end

}  // namespace athanor::launch::diagnosis
