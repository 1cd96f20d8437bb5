// How a job ended, for the one who launched it: a Master's verdict with what the rank to blame wrote at last.
#pragma once

#include <string>

#include "athanor/launch/master.h"
#include "athanor/launch/output/rank_output.h"

namespace athanor::launch {

struct LaunchResult {
  int exit_code =
      0;  // 0: all ranks ended with 0; 75: all with 0 or 75; 2: the rank to blame ended with 2; otherwise 1
  int failed_rank = -1;  // among the ranks of this host, from 0
  std::string message;   // "rank 1 was killed by signal 9 (SIGKILL)"
  std::string hint;
  std::string details{};      // failure_report.h, where a rank is to blame; "": none
  int num_lines_dropped = 0;  // of other ranks, which only followed it
  std::string run_folder{};   // where report.json is; "": no world has begun under an agent
};

// The message, with the details below it.
std::string text_of(const LaunchResult& result);
// Writes what `output` holds.
LaunchResult result_of(const Verdict& verdict, RankOutput& output);
std::string summary(const LaunchResult& result);  // "finished", "interrupted" or the message

}  // namespace athanor::launch
