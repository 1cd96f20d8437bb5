// Of the agent's loop: what is known of a rank that failed, and what is said and kept of it when the job has failed.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/launch/agent_loop.h"
#include "athanor/launch/diagnosis/end_in_words.h"

namespace athanor::launch {

RankEnd AgentLoop::end_of(int worker, int64_t seen_ns) {
  const RankProcess& one = *processes_.find(worker);
  const Worker& process = one.process;
  const ProcessEnd ended{.exit_code = process.exit_code(), .signal_number = process.signal_number()};
  RankEnd end{.exit_code = ended.exit_code,
              .signal_number = ended.signal_number,
              .how = process.ending(),
              .meaning = meaning_of(ended),
              .seen_ns = seen_ns};
  const auto told = killed_because_.extract(worker), by_us = killed_by_.extract(worker);
  if (!told.empty()) {
    end.how = told.mapped();
  } else if (end.signal_number == SIGKILL && !by_us.empty()) {
    end.meaning = by_us.mapped();
  } else if (end.signal_number == SIGKILL) {
    const KilledBy by = watches_.memory_kills.ask();
    end.meaning = meaning_of(by);
    if (by == KilledBy::kernel) end.how += " for want of memory";
  }
  if (!end.good())
    failures_[one.rank] = {
        .process = process.pid(),
        .step = newest_step_,
        .generation = master_.generation(),
        .wall_seconds = wall_seconds(),
        // Its last step may be read when its end is known already.
        .seconds_after_step =
            step_ns_ < 0 ? -1.0 : std::max(0.0, static_cast<double>(seen_ns - step_ns_) * 1e-9),
        .why = end.meaning};
  return end;
}

// For people, when the job has failed by that rank.
void AgentLoop::tell_failure(const Verdict& verdict, LaunchResult& result) {
  const auto found = failures_.find(verdict.failed_rank);
  if (found == failures_.end() || result.exit_code == 2) return;
  FailureReport report = found->second;
  look_at_hardware(now_ns());
  report.hardware = watches_.hardware.since_start();
  report.host = this_place().host;
  report.num_others = verdict.num_others_failed;
  report.num_other_lines = result.num_lines_dropped;
  report.lines = output_.last_words(verdict.failed_rank).lines;
  try {
    report.file = keep_output(verdict.failed_rank);
  } catch (const IoError& error) {
    report.not_written = error.what();
  }
  result.details = text_of(report);
}

// Of all ranks that wrote anything. The path of one; "": there is no folder for them, or it wrote nothing.
std::string AgentLoop::keep_output(int rank) {
  Env& env = *options_.env;
  if (run_folder_.empty() || !env.is_folder(run_folder_)) return "";
  const std::string logs = join_path(run_folder_, "logs");
  std::string path;
  for (int each = 0; each < output_.num_ranks(); ++each) {
    const std::string text = output_.tail(each);
    if (text.empty()) continue;
    env.create_folders(logs);
    const std::string file = join_path(logs, fmt::format("rank{}.output", options_.first_rank + each));
    env.replace(file, text);
    if (each == rank) path = file;
  }
  return path;
}

}  // namespace athanor::launch
