// Of a Master: how the job ends, and who is named.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "athanor/launch/master.h"
#include "athanor/launch/stop_requests.h"

namespace athanor::launch {

// A worker's failure ends the job.
void Master::fail_job(int worker, int64_t now_ns) {
  const Process& process = processes_.at(worker);
  if (failed_.empty()) believe_blame_ = !elastic() || !broken_;
  if (in_world(worker)) break_world(process.rank, process.end.how, now_ns);
  if (ended_by_us_) return;
  failed_.push_back(worker);
  end_job(fmt::format("{} was lost: {}", name(process.rank), process.end.how));
  escalate_at_ns_ = std::min(escalate_at_ns_, now_ns + options_.grace_ns);
}

void Master::fail_job(const std::string& why, int64_t now_ns) {
  job_failure_ = why;
  end_job(why);
  escalate_at_ns_ = std::min(escalate_at_ns_, now_ns + options_.grace_ns);
}

void Master::end_job(const std::string& why) {
  if (std::exchange(ending_, true)) return;
  end_why_ = why;
}

// The rank that the other ranks blame; otherwise the first rank that a signal ended; otherwise the first that failed.
int Master::culprit(std::optional<int> blamed) const {
  const auto is = [&](const auto& test) {
    return std::find_if(failed_.begin(), failed_.end(),
                        [&](int worker) { return test(processes_.at(worker)); });
  };
  if (!believe_blame_) return failed_.front();
  const auto named = is([&](const Process& process) { return blamed && process.rank == *blamed; });
  if (named != failed_.end()) return *named;
  const auto killed = is([](const Process& process) { return process.end.signal_number != 0; });
  return killed != failed_.end() ? *killed : failed_.front();
}

Verdict Master::verdict(std::optional<int> blamed) const {
  Verdict verdict;
  const bool all_ended_well = std::all_of(seats_.begin(), seats_.end(), [&](const Seat& seat) {
    return seat.worker >= 0 && (processes_.at(seat.worker).end.good() || processes_.at(seat.worker).harmless);
  });
  if (all_ended_well && job_failure_.empty()) {
    for (const Seat& seat : seats_)
      if (seat.worker >= 0 && processes_.at(seat.worker).end.exit_code == kInterruptedExitCode)
        verdict.exit_code = kInterruptedExitCode;
    return verdict;
  }
  verdict.exit_code = 1;
  const std::string interrupted = fmt::format("interrupted by signal {} ({})", stop_, signal_name(stop_));
  if (!job_failure_.empty()) {
    verdict.message = job_failure_;
    verdict.hint = job_hint_;
    return verdict;
  }
  if (failed_.empty()) {
    verdict.message = interrupted + " and killed";
    return verdict;
  }
  const Process& process = processes_.at(culprit(blamed));
  if (stop_ != 0 && process.end.signal_number == stop_) {
    verdict.message = interrupted;
    return verdict;
  }
  verdict.failed_rank = process.rank;
  verdict.num_others_failed = static_cast<int>(failed_.size()) - 1;
  verdict.message = fmt::format("{} {}", name(process.rank), process.end.how);
  if (!refusal_.empty()) verdict.message += ", " + refusal_;
  if (process.farewell) verdict.what = process.farewell->what;
  if (process.farewell) verdict.hint = process.farewell->hint;
  if (process.end.exit_code == 2) verdict.exit_code = 2;
  verdict.rank_0_says_it =
      !seats_.empty() && seats_[0].worker >= 0 && processes_.at(seats_[0].worker).end.exit_code == 2;
  if (verdict.exit_code == 2 && !shrunk_why_.empty()) {
    verdict.exit_code = 1;
    verdict.message = fmt::format("{}; with {} ranks, {}", shrunk_why_, seats_.size(), verdict.message);
  }
  return verdict;
}

}  // namespace athanor::launch
