// What is said of a job that stands still (hang_watch.h): for how long, and which rank the others wait for, by their stacks.
//
//   const HangReport report = report_of(found, stacks);
//   say(report.sentence);          // "no rank has done a step for 12s (usually 50 ms): rank 1 sleeps in ..., the others wait for it"
//   if (report.rank) blame(*report.rank);
//
// Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "athanor/launch/diagnosis/hang_watch.h"
#include "athanor/launch/diagnosis/stack_clusters.h"

namespace athanor::launch::diagnosis {

struct HangReport {
  std::string sentence{};
  std::string lines{};        // where each rank stands, if none is to blame; "": one is
  std::optional<int> rank{};  // the odd one, where that is clear
};

HangReport report_of(const Standstill& found, const std::vector<RankStacks>& stacks);

}  // namespace athanor::launch::diagnosis
