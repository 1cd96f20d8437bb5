#include "athanor/launch/master.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/launch/stop_requests.h"

namespace athanor::launch {

bool RankEnd::good() const {
  return exit_code == 0 || exit_code == kInterruptedExitCode;
}

Master::Master(const MasterOptions& options)
    : options_(options),
      budget_(options.max_restarts),
      warm_up_({.limit_ns = options.warm_up_ns, .first_rank = options.first_rank}),
      seats_(static_cast<size_t>(options.num_ranks)) {
  if (options_.max_ranks == 0) options_.max_ranks = options_.num_ranks;
}

void Master::start(int64_t now_ns) {
  for (Seat& seat : seats_) seat.start_at_ns = now_ns;
  do_next(now_ns);
  if (options_.meet) return;
  generation_ = 0;
  for (const Seat& seat : seats_) {
    world_.push_back(seat.worker);
    processes_.at(seat.worker).stage = Stage::running;
  }
}

std::vector<MasterAction> Master::take_actions() {
  return std::exchange(actions_, {});
}

bool Master::in_world(int worker) const {
  return std::find(world_.begin(), world_.end(), worker) != world_.end();
}

Master::Process* Master::process_of(int rank) {
  const int worker = seats_[static_cast<size_t>(rank)].worker;
  return worker < 0 ? nullptr : &processes_.at(worker);
}

std::string Master::name(int rank) const {
  return fmt::format("rank {}", options_.first_rank + rank);
}

std::string Master::at_step() const {
  return budget_.best_step() < 0 ? "before the first step" : fmt::format("at step {}", budget_.best_step());
}

bool Master::all_wait() const {
  return std::all_of(seats_.begin(), seats_.end(), [&](const Seat& seat) {
    return seat.worker >= 0 && processes_.at(seat.worker).stage == Stage::waiting;
  });
}

void Master::start_worker(int rank, int64_t now_ns) {
  Seat& seat = seats_[static_cast<size_t>(rank)];
  const bool first = seat.worker < 0;
  const bool had_ended_well = !first && processes_.at(seat.worker).end.good();
  seat.worker = static_cast<int>(processes_.size());
  seat.start_at_ns = kNeverNs;
  Process& process = processes_[seat.worker];
  process.rank = rank;
  if (generation_ >= 0) process.kill_at_ns = now_ns + options_.start_ns;  // the others wait for it
  if (!first)
    actions_.push_back(
        JobEvent{.event = "restart",
                 .step = budget_.best_step(),
                 .generation = generation_,
                 .rank = rank,
                 .cause = had_ended_well ? "it had ended well, and the others need it once more" : ""});
  actions_.push_back(StartWorker{seat.worker, rank});
}

// Whatever follows from what is known now.
void Master::do_next(int64_t now_ns) {
  if (!ending_) go_on(now_ns);
  if (!ending_) return;
  for (auto& [worker, process] : processes_)
    if (process.stage == Stage::waiting && !std::exchange(process.told_end, true))
      actions_.push_back(SendToWorker{worker, control::End{end_why_}});
}

void Master::go_on(int64_t now_ns) {
  if (generation_ < 0) take_early_end(now_ns);
  if (ending_) return;
  for (size_t rank = 0; rank < seats_.size(); ++rank)
    if (seats_[rank].start_at_ns <= now_ns) start_worker(static_cast<int>(rank), now_ns);
  // Ranks that come train nobody's time away: the world is broken up only when they are there.
  if (generation_ >= 0 && !broken_ && seats_.size() != world_.size()) {
    const auto there = [&](const Seat& seat) {
      return seat.worker >= 0 && processes_.at(seat.worker).stage == Stage::waiting;
    };
    const auto first = seats_.begin() + std::min(std::ssize(seats_), std::ssize(world_));
    if (std::all_of(first, seats_.end(), there)) {
      open_incident(fmt::format("{} ranks instead of {}", seats_.size(), world_.size()), now_ns);
      incident_->counted = incident_->is_asked = true;
      break_world(static_cast<int>(std::min(seats_.size(), world_.size() - 1)),
                  fmt::format("the job goes on with {} ranks", seats_.size()), now_ns);
    }
  }
  if ((generation_ < 0 || broken_) && all_wait() && meet_without_deaths(now_ns) && now_ns >= form_at_ns_ &&
      has_warmed_up(now_ns))
    form(now_ns);
}

void Master::form(int64_t now_ns) {
  std::vector<int> members;
  for (const Seat& seat : seats_) members.push_back(seat.worker);
  const auto left = custody_.hand_over(members);
  FormWorld form{.generation = ++generation_,
                 .why = incident_ ? incident_->why : "the start",
                 .members = {},
                 .left_generation = custody_.generation(),
                 .order = order_};
  for (size_t rank = 0; rank < members.size(); ++rank) {
    form.members.push_back({members[rank], left[rank]});
    Process& process = processes_.at(members[rank]);
    process.stage = Stage::running;
    process.kill_at_ns = kNeverNs;
  }
  actions_.push_back(std::move(form));
  if (generation_ == 0) {
    actions_.push_back(JobEvent{.event = "start", .generation = 0});
    tell_warm_up(now_ns);
  }
  world_ = std::move(members);
  broken_ = attempt_open_ = false;
  failed_ranks_.clear();
  form_at_ns_ = now_ns;
}

void Master::hello(int worker, int64_t now_ns) {
  Process& process = processes_.at(worker);
  process.says_hello = true;
  if (process.stage == Stage::leaving && !std::exchange(process.told_end, true))
    actions_.push_back(SendToWorker{worker, control::End{end_why_}});
  if (stop_ != 0 && !std::exchange(process.told_stop, true))
    actions_.push_back(SendToWorker{worker, control::Stop{stop_}});
  do_next(now_ns);
}

void Master::ready(int worker, const std::string& why, int64_t now_ns) {
  Process& process = processes_.at(worker);
  const bool was_running = process.stage == Stage::running;
  if (process.stage == Stage::leaving || process.stage == Stage::ended) return;
  process.stage = Stage::waiting;
  process.kill_at_ns = kNeverNs;
  if (was_running && !ending_) {
    if (finished_) {
      leave(worker, "the run has ended", now_ns);
    } else if (!elastic()) {
      process.told_end = true;
      actions_.push_back(SendToWorker{worker, control::End{"the job starts no rank again"}});
    } else if (!broken_) {
      open_incident(why, now_ns);
      break_world(process.rank, why, now_ns);
    }
  }
  do_next(now_ns);
}

void Master::begun(int worker, int64_t generation, int64_t step, int64_t now_ns) {
  if (!in_world(worker) || generation != generation_) return;
  budget_.committed(step);
  processes_.at(worker).step = step;
  if (custody_.generation() == generation) return;
  if (std::exchange(order_.rollback_step, -1) >= 0) budget_.go_back(step);
  step_ = step;
  first_begun_ns_ = std::min(first_begun_ns_, now_ns);
  custody_.begun(generation, world_);
  actions_.push_back(ReleaseSlots{generation});
  const bool resized = std::exchange(begun_size_, world_.size()) != world_.size();
  if (!incident_ || broken_) return;
  lost_ns_ += now_ns - incident_->at_ns;
  const double seconds = static_cast<double>(now_ns - incident_->at_ns) * 1e-9;
  actions_.push_back(JobEvent{.event = "recovered",
                              .step = step,
                              .generation = generation,
                              .cause = incident_->why,
                              .recover_seconds = seconds,
                              .lost_steps = std::max<int64_t>(incident_->step - step, 0)});
  actions_.push_back(Say{fmt::format("generation {}: goes on{} after step {}, {:.2f} s after the {}",
                                     generation, resized ? fmt::format(" with {} ranks", world_.size()) : "",
                                     step, seconds, incident_->is_asked ? "request" : "failure")});
  incident_.reset();
  shrunk_why_.clear();
}

void Master::progress(int worker, const control::Progress& progress) {
  Process& process = processes_.at(worker);
  process.tokenizes = progress.kind == control::ProgressKind::tokenizing;
  if (!in_world(worker) || progress.generation != generation_) return;
  if (progress.kind != control::ProgressKind::step) return;  // it may not know of a step yet
  budget_.committed(progress.step);
  process.step = progress.step;
  // With the first step the setting is part of the state of every rank; until then a world that breaks has to be told again.
  if (progress.step > step_ && !broken_ && custody_.generation() == generation_) order_.set.clear();
  step_ = std::max(step_, progress.step);
}

// The order was carried out, or cannot be.
void Master::saved(int worker, const control::Saved& saved) {
  if (in_world(worker) && saved.generation == generation_ && !broken_) order_.save = false;
}

void Master::farewell(int worker, const control::Farewell& farewell) {
  processes_.at(worker).farewell = farewell;
}

void Master::refused(int worker, const std::string& why, int64_t now_ns) {
  Process& process = processes_.at(worker);
  if (!process.lives()) return;
  process.farewell = {.status = control::Status::failed, .cause = control::Cause::error, .what = why};
  process.kill_at_ns = now_ns;
  tick(now_ns);
}

void Master::exited(int worker, const RankEnd& end, int64_t now_ns) {
  Process& process = processes_.at(worker);
  if (!process.lives()) return;  // another agent tells it again
  const Stage before = std::exchange(process.stage, Stage::ended);
  process.end = end;
  process.kill_at_ns = kNeverNs;
  if (end.exit_code < 0 && end.signal_number == 0 && process.farewell) {  // nobody knows, but it has said
    const control::Status said = process.farewell->status;
    process.end.exit_code = said == control::Status::finished      ? 0
                            : said == control::Status::interrupted ? kInterruptedExitCode
                                                                   : 1;
  }
  if (before != Stage::leaving)
    process.end.good() ? take_good_end(worker, now_ns) : take_failure(worker, now_ns);
  do_next(now_ns);
}

void Master::failed(const std::string& why, int64_t now_ns) {
  if (!ending_) {
    break_world(0, why, now_ns);
    fail_job(why, now_ns);
  }
  do_next(now_ns);
}

void Master::stop(int signal, bool again, int64_t now_ns) {
  if (again) {
    ending_ = ended_by_us_ = true;
    for (const auto& [worker, process] : processes_)
      if (process.lives()) actions_.push_back(SignalWorker{worker, SIGKILL});
    return;
  }
  stop_ = signal;
  actions_.push_back(JobEvent{
      .event = "stop", .step = budget_.best_step(), .generation = generation_, .cause = signal_name(signal)});
  for (auto& [worker, process] : processes_) {
    // One that was started again cannot take signals before it says hello: it is told then.
    if (!process.lives() || (generation_ >= 0 && options_.meet && !process.says_hello)) continue;
    process.told_stop = true;
    actions_.push_back(SignalWorker{worker, signal});
  }
  for (Seat& seat : seats_)
    if (seat.start_at_ns != kNeverNs) seat.start_at_ns = now_ns;
  form_at_ns_ = std::min(form_at_ns_, now_ns);
  do_next(now_ns);
}

void Master::tick(int64_t now_ns) {
  for (auto& [worker, process] : processes_) {
    if (process.kill_at_ns > now_ns) continue;
    process.kill_at_ns = kNeverNs;
    if (process.stage == Stage::running && broken_ && !process.farewell)
      actions_.push_back(Say{fmt::format("{} did not come back within {:.3g} s: killed", name(process.rank),
                                         static_cast<double>(2 * options_.grace_ns) * 1e-9)});
    if (process.stage == Stage::starting && !process.farewell)
      actions_.push_back(Say{fmt::format("{} did not come up within {:.3g} s: killed", name(process.rank),
                                         static_cast<double>(options_.start_ns) * 1e-9)});
    actions_.push_back(SignalWorker{worker, SIGKILL});
  }
  if (now_ns >= escalate_at_ns_) {
    for (const auto& [worker, process] : processes_) {
      if (!process.lives()) continue;
      actions_.push_back(SignalWorker{worker, ended_by_us_ ? SIGKILL : SIGTERM});
      actions_.push_back(SignalWorker{worker, SIGCONT});  // a stopped rank takes no SIGTERM
    }
    escalate_at_ns_ = ended_by_us_ ? kNeverNs : now_ns + options_.grace_ns;
    ended_by_us_ = true;
  }
  do_next(now_ns);
}

int64_t Master::next_tick_ns() const {
  int64_t next = escalate_at_ns_;
  for (const auto& [worker, process] : processes_) next = std::min(next, process.kill_at_ns);
  if (ending_) return next;
  for (const Seat& seat : seats_) next = std::min(next, seat.start_at_ns);
  if (broken_ && all_wait()) next = std::min(next, form_at_ns_);
  if (warm_up_round() >= 0) next = std::min(next, warm_up_.until_ns());
  return next;
}

bool Master::done() const {
  for (const auto& [worker, process] : processes_)
    if (process.lives()) return false;
  return ending_ || std::all_of(seats_.begin(), seats_.end(),
                                [](const Seat& seat) { return seat.start_at_ns == kNeverNs; });
}

}  // namespace athanor::launch
