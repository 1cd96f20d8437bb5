// Of the agent's loop: what the operator wants.
#include <fmt/core.h>

#include <csignal>
#include <utility>
#include <variant>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/launch/agent_loop.h"

namespace athanor::launch {

using control::Done;
using control::Refused;
using control::Working;

void AgentLoop::open_run(const std::string& run_folder) {
  record_.open(run_folder);
  if (run_folder_.empty()) run_folder_ = run_folder;
  JobPlace place = this_place();
  if (keeper_ != nullptr) place.pid = keeper_->given.keeper;
  place.socket = desk_ ? desk_->path() : "";
  job_file_.take(run_folder, place);
  hold();
}

void AgentLoop::take_requests() {
  if (!desk_) return;
  for (const OperatorDesk::Request& request : desk_->take()) {
    std::visit([&](const auto& what) { answer(request.from, what); }, request.what);
    act();
  }
}

void AgentLoop::answer(int64_t from, const control::AskStatus&) {
  control::JobStatus job = master_.status(now_ns());
  job.run = run_folder_;
  for (control::RankStatus& one : job.ranks)
    if (const RankProcess* process = processes_.find(master_.worker_of(one.rank)))
      one.pid = process->process.pid();
  desk_->answer(from, job);
}

void AgentLoop::answer(int64_t from, const control::ScaleTo& scale) {
  const int before = master_.size();
  std::string why;
  if (scale.num_ranks >= options_.min_ranks) why = options_.refuse_size(scale.num_ranks);
  if (why.empty()) why = master_.scale(scale.num_ranks, now_ns());
  if (!why.empty()) return desk_->answer(from, Refused{why});
  desk_->answer(
      from, Done{before == scale.num_ranks
                     ? fmt::format("the job has {} ranks already", before)
                     : fmt::format("the job goes on with {} ranks instead of {}{}", scale.num_ranks, before,
                                   before < scale.num_ranks ? " as soon as they are there" : "")});
}

void AgentLoop::answer(int64_t from, const control::KillRank& kill) {
  RankProcess* process = processes_.find(master_.worker_of(kill.rank));
  if (process == nullptr)
    return desk_->answer(
        from, Refused{kill.rank < master_.size()
                          ? fmt::format("rank {} has no process now", kill.rank)
                          : fmt::format("got rank {}, expected 0 to {}", kill.rank, master_.size() - 1)});
  wait_for_end_[master_.worker_of(kill.rank)].push_back(from);
  process->process.signal(SIGKILL);
  killed_by_[master_.worker_of(kill.rank)] = "the operator wanted it (athanor ctl kill)";
}

void AgentLoop::answer(int64_t from, const control::SaveNow&) {
  const int64_t generation = master_.generation();
  if (const std::string why = master_.order({.save = true}, now_ns()); !why.empty())
    return desk_->answer(from, Refused{why});
  desk_->answer(from, Working{"the ranks write a checkpoint"});
  wait_for_save_ = {from, generation};
}

void AgentLoop::answer(int64_t from, const control::GoBack& back) {
  const int64_t generation = master_.generation();
  if (const std::string why = master_.order({.rollback_step = back.step}, now_ns()); !why.empty())
    return desk_->answer(from, Refused{why});
  desk_->answer(from, Working{fmt::format("the ranks go back to step {}", back.step)});
  wait_for_rollback_ = {from, generation};
  rollback_step_ = back.step;
}

void AgentLoop::answer(int64_t from, const control::Set& set) {
  const int64_t generation = master_.generation();
  std::string why = options_.refuse_setting(set.setting);
  if (why.empty()) why = master_.order({.set = set.setting}, now_ns());
  if (!why.empty()) return desk_->answer(from, Refused{why});
  desk_->answer(from, Working{fmt::format("the ranks meet to go on with {}", set.setting)});
  wait_for_setting_ = {from, generation};
  setting_ = set.setting;
}

void AgentLoop::tell_killed(int worker, int rank, const std::string& how) {
  const auto found = wait_for_end_.find(worker);
  if (found == wait_for_end_.end()) return;
  for (const int64_t from : found->second)
    desk_->answer(from, Done{fmt::format("rank {} {}: {}", rank, how,
                                         master_.goes_on() ? "the job recovers" : "the job ends")});
  wait_for_end_.erase(found);
}

void AgentLoop::tell_not_set(const JobEvent& event) {
  if (wait_for_setting_.from < 0 || event.event != "set" || !event.cause.starts_with(control::kNotSet))
    return;
  desk_->answer(std::exchange(wait_for_setting_, {}).from,
                Refused{event.cause.substr(control::kNotSet.size())});
}

void AgentLoop::tell_begun(const control::Begun& begun) {
  if (wait_for_setting_.from >= 0 && begun.generation > wait_for_setting_.generation)
    desk_->answer(std::exchange(wait_for_setting_, {}).from,
                  Done{fmt::format("from step {} on the job has {}", begun.step + 1, setting_)});
  if (wait_for_rollback_.from < 0 || begun.generation <= wait_for_rollback_.generation) return;
  const int64_t from = std::exchange(wait_for_rollback_, {}).from;
  if (begun.step == rollback_step_)
    desk_->answer(from, Done{fmt::format("the job goes on after step {}", begun.step)});
  else
    desk_->answer(from, Refused{fmt::format("there is no checkpoint of step {} any more: the job goes on "
                                            "after step {}",
                                            rollback_step_, begun.step)});
}

void AgentLoop::tell_saved(const control::Saved& saved) {
  if (wait_for_save_.from < 0 || saved.generation <= wait_for_save_.generation) return;
  const int64_t from = std::exchange(wait_for_save_, {}).from;
  if (saved.error.empty())
    desk_->answer(from, Done{"saved " + saved.path});
  else
    desk_->answer(from, Refused{fmt::format("step {} could not be saved: {}", saved.step, saved.error)});
}

}  // namespace athanor::launch
