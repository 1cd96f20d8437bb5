// Of the agent's loop: what the Master wants done.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>
#include <variant>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/launch/agent_loop.h"
#include "athanor/launch/rank_command.h"

namespace athanor::launch {

void AgentLoop::act() {
  for (auto actions = master_.take_numbered_actions(); !actions.empty();
       actions = master_.take_numbered_actions())
    for (const NumberedAction& one : actions) {
      std::visit([this](const auto& what) { act(what); }, one.action);
      notes_.done(one.done);
    }
}

WorkerCommand AgentLoop::command_of(int rank, int worker) const {
  WorkerPlace place;
  place.rank = options_.first_rank + rank;
  place.local_rank = rank;
  place.local_world_size = master_.size();
  place.world_size = !control_ && options_.world_size > 0 ? options_.world_size : master_.size();
  if (control_) {
    place.control = reception_->path();
    place.job = job_;
    place.worker = worker;
  } else {
    const GenerationMemory& memory = memories_.at(0);
    place.segment_fd = memory.segment.fd();
    place.snapshot_fd = memory.slots.at(static_cast<size_t>(rank)).get();
  }
  return rank_command(options_, place, signals_.before());
}

void AgentLoop::act(const StartWorker& start) {
  if (processes_.find(start.worker) != nullptr) return;  // by another agent
  try {
    if (keeper_ == nullptr) {
      processes_.start(start.worker, start.rank, command_of(start.rank, start.worker));
    } else {
      RankGiven given =
          keeper_->start({.worker = start.worker, .rank = start.rank, .world_size = master_.size()});
      Worker process(static_cast<pid_t>(given.started.pid), std::move(given.process),
                     std::move(given.errors));
      processes_.adopt(start.worker, {start.rank, std::move(process)});
    }
  } catch (const IoError& error) {
    if (start.worker < options_.num_ranks) throw;  // at the start nothing is lost by it
    master_.exited(start.worker, {.how = fmt::format("could not be started: {}", error.what())}, now_ns());
  }
}

void AgentLoop::act(const FormWorld& form) {
  std::erase_if(memories_, [&](const auto& entry) { return entry.first != form.left_generation; });
  const int size = static_cast<int>(form.members.size());
  newest_ = form;
  if (const auto found = memories_.find(form.generation);
      found != memories_.end() && found->second.size() != size)
    memories_.erase(found);  // another agent was killed when it had given a part of it
  try {
    memories_.try_emplace(form.generation, size, static_cast<int>(form.generation));
  } catch (const IoError& error) {
    master_.failed(fmt::format("generation {}: {}", form.generation, error.what()), now_ns());
    return;
  }
  watches_.stopped.formed();
  watches_.hangs.formed(size);
  watches_.slow.formed(size);
  release_pins_of(form.left_generation);
  hold();
  for (size_t rank = 0; rank < form.members.size(); ++rank) send_meet(rank);
}

// Of the newest world.
void AgentLoop::send_meet(size_t rank) {
  const FormWorld& form = *newest_;
  const FormWorld::Member& member = form.members[rank];
  const GenerationMemory& memory = memories_.at(form.generation);
  std::vector<int> descriptors = {memory.segment.fd(), memory.slots[rank].get(), pulse_->fd()};
  for (const int left : member.left)
    descriptors.push_back(memories_.at(form.left_generation).slots.at(static_cast<size_t>(left)).get());
  send(member.worker,
       Meet{.generation = form.generation,
            .rank = static_cast<int>(rank),
            .size = static_cast<int>(form.members.size()),
            .why = form.why,
            .left = member.left,
            .order = form.order},
       descriptors);
}

// Not the last of all: what is done again after another agent may be about a world before that.
GenerationMemory* AgentLoop::newest_memory() {
  if (memories_.empty()) return nullptr;
  const auto found = newest_ ? memories_.find(newest_->generation) : std::prev(memories_.end());
  return found == memories_.end() ? nullptr : &found->second;
}

void AgentLoop::act(const BreakWorld& broken) {
  if (GenerationMemory* memory = newest_memory()) memory->segment.mark_dead(broken.rank, broken.why);
}

void AgentLoop::act(const LeaveWorld& left) {
  if (GenerationMemory* memory = newest_memory()) memory->segment.mark_left(left.rank);
}

// Of what is held the oldest is what the last generation that had begun left.
void AgentLoop::keep_slots_of_last(int64_t generation) {
  const auto now = memories_.find(generation), last = memories_.begin();
  if (now == memories_.end() || now == last || now->second.size() != last->second.size()) return;
  now->second.slots = std::move(last->second.slots);
  hold();
}

void AgentLoop::act(const ReleaseSlots& release) {
  std::erase_if(memories_, [&](const auto& entry) { return entry.first < release.before; });
  hold();
}

void AgentLoop::act(const SendToWorker& to) {
  send(to.worker, to.message);
}

void AgentLoop::act(const SignalWorker& signal) {
  // A rank knows the signals of its launcher by the process that sends them.
  const bool by_keeper =
      keeper_ != nullptr && !is_alone_ && signal.number != SIGKILL && signal.number != SIGCONT;
  if (by_keeper)
    keeper_->tell(SignalRank{signal.worker, signal.number});
  else if (const RankProcess* one = processes_.find(signal.worker))
    one->process.signal(signal.number);
  if (signal.number == SIGKILL) killed_by_[signal.worker] = "the launcher killed it";
}

void AgentLoop::act(const Say& say) {
  writer_.add((options_.terminal ? "\r\033[K" : "") + say.line + "\n");
}

// A worker that is gone is noticed by its process.
void AgentLoop::send(int worker, const AgentMessage& message, const std::vector<int>& descriptors) {
  RankProcess* one = processes_.find(worker);
  if (one == nullptr) return;
  if (!one->channel) {
    if (keeper_ != nullptr && descriptors.empty()) one->unsent.push_back(message);
    return;
  }
  try {
    one->channel->send(encode(message), descriptors);
  } catch (const IoError& error) {
    one->channel.reset();
    master_.refused(worker, error.what(), now_ns());
  }
}

}  // namespace athanor::launch
