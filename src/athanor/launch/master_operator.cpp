// Of a Master: what the operator wants and is told.
#include <fmt/core.h>

#include <algorithm>

#include "athanor/launch/master.h"

namespace athanor::launch {

std::string Master::why_not_now() const {
  if (!elastic()) return "launch.max_restarts is 0: the ranks meet only once";
  if (ending_ || finished_ || stop_ != 0) return "the job is ending";
  if (custody_.generation() < 0 || broken_ || custody_.generation() != generation_)
    return "the ranks are meeting: try again when they go on";
  if (seats_.size() != world_.size()) return fmt::format("the job is on its way to {} ranks", seats_.size());
  return "";
}

std::string Master::scale(int num_ranks, int64_t now_ns) {
  if (num_ranks < options_.min_ranks || num_ranks > options_.max_ranks)
    return fmt::format("got {} ranks, expected launch.min_ranks = {} to launch.max_ranks = {}", num_ranks,
                       options_.min_ranks, options_.max_ranks);
  if (std::string why = why_not_now(); !why.empty()) return why;
  if (num_ranks == size()) return "";
  actions_.push_back(Say{fmt::format("the job goes on with {} ranks instead of {}", num_ranks, size())});
  resize(num_ranks, now_ns);
  do_next(now_ns);
  return "";
}

std::string Master::order(const control::Order& order, int64_t now_ns) {
  if (std::string why = why_not_now(); !why.empty()) return why;
  if (!order_.set.empty()) return fmt::format("no step has been done with {} yet: try again", order_.set);
  order_ = order;
  const bool goes_back = order.rollback_step >= 0, sets = !order.set.empty();
  const std::string why = goes_back ? fmt::format("the operator goes back to step {}", order.rollback_step)
                          : sets    ? fmt::format("the operator sets {}", order.set)
                                    : "the operator wants a checkpoint";
  actions_.push_back(JobEvent{.event = goes_back ? "rollback"
                                       : sets    ? "set"
                                                 : "snapshot",
                              .step = step_,
                              .generation = generation_,
                              .cause = why});
  open_incident(why, now_ns);
  incident_->counted = incident_->is_asked = true;
  break_world(0, why, now_ns);
  do_next(now_ns);
  return "";
}

int Master::worker_of(int rank) const {
  if (rank < 0 || rank >= size()) return -1;
  const int worker = seats_[static_cast<size_t>(rank)].worker;
  return worker >= 0 && processes_.at(worker).lives() ? worker : -1;
}

control::RankState Master::state_of(const Process& process) const {
  using control::RankState;
  switch (process.stage) {
    case Stage::starting:
      return RankState::starting;
    case Stage::waiting:
      return RankState::meeting;
    case Stage::running:  // until its world has begun it meets the others
      return broken_ || custody_.generation() != generation_ ? RankState::meeting : RankState::training;
    case Stage::leaving:
      return RankState::leaving;
    case Stage::ended:
      return RankState::ended;
  }
  return RankState::ended;
}

control::JobStatus Master::status(int64_t now_ns) const {
  control::JobStatus job{.run = {}, .step = step_, .generation = generation_, .goodput = 0.0, .ranks = {}};
  if (first_begun_ns_ < now_ns) {
    const int64_t lost_ns = lost_ns_ + (incident_ ? now_ns - std::max(incident_->at_ns, first_begun_ns_) : 0);
    job.goodput = std::clamp(
        1.0 - static_cast<double>(lost_ns) / static_cast<double>(now_ns - first_begun_ns_), 0.0, 1.0);
  }
  for (int rank = 0; rank < size(); ++rank) {
    const int worker = seats_[static_cast<size_t>(rank)].worker;
    control::RankStatus one{.rank = options_.first_rank + rank};
    if (worker >= 0) {
      const Process& process = processes_.at(worker);
      one.state = state_of(process);
      one.step = process.step;
    }
    job.ranks.push_back(one);
  }
  return job;
}

}  // namespace athanor::launch
