// Of a Master: what follows when ranks fail or their number changes.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "athanor/launch/master.h"
#include "athanor/launch/stop_requests.h"

namespace athanor::launch {
namespace {

// What to start again would not help.
bool is_final(const std::optional<control::Farewell>& farewell, const RankEnd& end) {
  using control::Cause;
  if (end.exit_code == 2) return true;
  return farewell && (farewell->cause == Cause::config || farewell->cause == Cause::error ||
                      farewell->cause == Cause::not_finite);
}

}  // namespace

void Master::take_good_end(int worker, int64_t now_ns) {
  const Process& process = processes_.at(worker);
  const bool in = in_world(worker);
  if (in) actions_.push_back(LeaveWorld{process.rank});
  if (in && process.rank == 0) finished_ = true;
  if (finished_ && elastic()) return wrap_up(now_ns);
  if (ending_ || !elastic() || generation_ < 0) return;  // before the first world: take_early_end()
  if (!in) return restart(process.rank, process.end.how + " before the ranks had met", now_ns);
  if (broken_) seats_[static_cast<size_t>(process.rank)].start_at_ns = now_ns;  // it is needed once more
}

void Master::take_failure(int worker, int64_t now_ns) {
  Process& process = processes_.at(worker);
  RankEnd& end = process.end;
  if (process.farewell && process.farewell->cause == control::Cause::exhausted)
    end.how += ": " + process.farewell->what;
  if (elastic() && finished_ && !ending_) {
    process.harmless = true;
    actions_.push_back(Say{fmt::format("{} {} after the run had been saved", name(process.rank), end.how)});
    return;
  }
  const bool asked = stop_ != 0 && end.signal_number == stop_;
  const double detect_seconds = end.seen_ns < 0 ? 0.0 : static_cast<double>(now_ns - end.seen_ns) * 1e-9;
  if (!ending_ && !asked)
    actions_.push_back(JobEvent{.event = "failure",
                                .step = budget_.best_step(),
                                .generation = generation_,
                                .rank = process.rank,
                                .cause = end.how,
                                .detect_seconds = detect_seconds});
  if (!elastic() || asked || ending_ || is_final(process.farewell, end)) return fail_job(worker, now_ns);
  if (in_world(worker)) break_world(process.rank, end.how, now_ns);
  restart(process.rank, end.how, now_ns);
}

void Master::restart(int rank, const std::string& how, int64_t now_ns) {
  if (!is_coming(rank)) open_incident(fmt::format("{} {}", name(rank), how), now_ns);
  if (incident_) incident_->counted = true;
  const bool new_attempt = !std::exchange(attempt_open_, true) || failed_ranks_.contains(rank);
  failed_ranks_.insert(rank);
  const auto answer = budget_.ask(rank, new_attempt);
  if (!answer.refusal.empty()) return give_up(rank, how, answer.refusal, now_ns);
  const int64_t delay_ns = stop_ != 0 ? 0 : answer.delay_ns;
  seats_[static_cast<size_t>(rank)].start_at_ns = now_ns + delay_ns;
  const std::string when =
      delay_ns == 0 ? "" : fmt::format(" in {:.1f} s", static_cast<double>(delay_ns) * 1e-9);
  actions_.push_back(Say{fmt::format("{} {} {}: started again{}", name(rank), how, at_step(), when)});
}

// It is to join a world that goes on without it for now.
bool Master::is_coming(int rank) const {
  return generation_ >= 0 && rank >= static_cast<int>(world_.size());
}

// The rank cannot be started again: the job goes on with a rank less, or ends.
void Master::give_up(int rank, const std::string& how, const std::string& refusal, int64_t now_ns) {
  const int size = static_cast<int>(seats_.size());
  if (is_coming(rank)) {
    actions_.push_back(
        Say{fmt::format("{} {}, {}: the job stays at {} ranks", name(rank), how, refusal, world_.size())});
    attempt_open_ = false;
    failed_ranks_.clear();
    return resize(static_cast<int>(world_.size()), now_ns);
  }
  if (generation_ < 0 || size - 1 < options_.min_ranks) {
    refusal_ = refusal;
    return fail_job(seats_[static_cast<size_t>(rank)].worker, now_ns);
  }
  shrunk_why_ = fmt::format("{} {}, {}", name(rank), how, refusal);
  actions_.push_back(Say{fmt::format("{}: the job goes on with {} ranks", shrunk_why_, size - 1)});
  budget_.renew();
  resize(size - 1, now_ns);
  if (rank < size - 1) seats_[static_cast<size_t>(rank)].start_at_ns = now_ns;
}

// The number of ranks of the next world.
void Master::resize(int num_ranks, int64_t now_ns) {
  const int before = static_cast<int>(seats_.size());
  for (int rank = num_ranks; rank < before; ++rank)
    if (process_of(rank) != nullptr && process_of(rank)->lives())
      leave(seats_[static_cast<size_t>(rank)].worker, fmt::format("the job goes on with {} ranks", num_ranks),
            now_ns);
  seats_.resize(static_cast<size_t>(num_ranks));
  for (int rank = before; rank < num_ranks; ++rank) seats_[static_cast<size_t>(rank)].start_at_ns = now_ns;
  if (num_ranks == before) return;
  actions_.push_back(JobEvent{.event = num_ranks < before ? "shrink" : "grow",
                              .step = budget_.best_step(),
                              .generation = generation_,
                              .cause = fmt::format("{} ranks instead of {}", num_ranks, before)});
}

// All wait for another world. If none of them died, their group has failed: that takes a restart, too.
bool Master::meet_without_deaths(int64_t now_ns) {
  if (!incident_ || std::exchange(incident_->counted, true)) return true;
  actions_.push_back(JobEvent{
      .event = "failure", .step = budget_.best_step(), .generation = generation_, .cause = incident_->why});
  attempt_open_ = true;
  const auto answer = budget_.ask(-1, true);
  if (!answer.refusal.empty()) {
    fail_job(fmt::format("the ranks lost each other, {}: {}", answer.refusal, incident_->why), now_ns);
    return false;
  }
  form_at_ns_ = now_ns + (stop_ != 0 ? 0 : answer.delay_ns);
  actions_.push_back(
      Say{fmt::format("the ranks lost each other {}: {}; they meet again", at_step(), incident_->why)});
  return true;
}

void Master::break_world(int rank, const std::string& why, int64_t now_ns) {
  if (generation_ < 0 || std::exchange(broken_, true)) return;
  actions_.push_back(BreakWorld{rank, why});
  if (!elastic()) return;
  for (const int worker : world_) {
    Process& process = processes_.at(worker);
    if (process.stage == Stage::running && !process.tokenizes)
      process.kill_at_ns = now_ns + 2 * options_.grace_ns;
    // It thought that all was over.
    if (!process.lives() && process.end.good() && !finished_ &&
        process.rank < static_cast<int>(seats_.size()))
      seats_[static_cast<size_t>(process.rank)].start_at_ns = now_ns;
  }
}

void Master::open_incident(const std::string& why, int64_t now_ns) {
  if (incident_) {
    if (!attempt_open_) incident_->counted = false;
    return;
  }
  incident_ = MasterIncident{.at_ns = now_ns, .step = budget_.best_step(), .why = why};
}

void Master::leave(int worker, const std::string& why, int64_t now_ns) {
  Process& process = processes_.at(worker);
  process.stage = Stage::leaving;
  process.harmless = true;
  process.kill_at_ns = now_ns + 2 * options_.grace_ns;
  end_why_ = why;
  if (!process.says_hello || std::exchange(process.told_end, true)) return;
  actions_.push_back(SendToWorker{worker, control::End{why}});
}

// The run is saved: those who wait for another world, or might, are not needed.
void Master::wrap_up(int64_t now_ns) {
  for (const auto& [worker, process] : processes_)
    if (process.lives() && process.stage != Stage::leaving && (broken_ || !in_world(worker)))
      leave(worker, "the run has ended", now_ns);
  for (Seat& seat : seats_) seat.start_at_ns = kNeverNs;
  ending_ = broken_ || generation_ < 0;  // else the others end by themselves
}

// Before the first world: some ranks wait for one that has ended well, and will not come.
void Master::take_early_end(int64_t now_ns) {
  const auto waits = [](const auto& entry) { return entry.second.stage == Stage::waiting; };
  if (std::none_of(processes_.begin(), processes_.end(), waits)) return;
  for (size_t rank = 0; rank < seats_.size(); ++rank) {
    const Process* process = process_of(static_cast<int>(rank));
    if (process == nullptr || process->lives() || !process->end.good()) continue;
    if (seats_[rank].start_at_ns != kNeverNs) continue;
    if (stop_ != 0) return wrap_up(now_ns);
    if (elastic()) {
      restart(static_cast<int>(rank), process->end.how + " before the ranks had met", now_ns);
    } else {
      end_why_ = fmt::format("{} was lost: it has left the group", name(static_cast<int>(rank)));
      ending_ = true;
    }
    if (ending_) return;
  }
}

}  // namespace athanor::launch
