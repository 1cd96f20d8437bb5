// Of the agent's loop: what the Master wants done.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>
#include <variant>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/launch/agent_loop.h"
#include "athanor/launch/worker_place.h"

namespace athanor::launch {

void AgentLoop::act() {
  for (auto actions = master_.take_actions(); !actions.empty(); actions = master_.take_actions())
    for (const MasterAction& action : actions) std::visit([this](const auto& one) { act(one); }, action);
}

WorkerCommand AgentLoop::command_of(int rank, int worker) const {
  WorkerPlace place;
  place.rank = options_.first_rank + rank;
  place.local_rank = rank;
  place.local_world_size = master_.size();
  place.world_size = !control_ && options_.world_size > 0 ? options_.world_size : master_.size();
  WorkerCommand command;
  command.arguments = options_.command;
  if (control_) {
    place.control = reception_->path();
    place.job = job_;
    place.worker = worker;
  } else {
    const GenerationMemory& memory = memories_.at(0);
    place.segment_fd = memory.segment.fd();
    place.snapshot_fd = memory.slots.at(static_cast<size_t>(rank)).get();
    command.inherited_fds = {place.segment_fd, place.snapshot_fd};
  }
  command.environment = place_into(options_.environment, place);
  command.own_stdout = rank == 0;
  command.capture_stderr = rank != 0 || !options_.terminal;
  command.signal_mask = signals_.before();
  return command;
}

void AgentLoop::act(const StartWorker& start) {
  try {
    processes_.start(start.worker, start.rank, command_of(start.rank, start.worker));
  } catch (const IoError& error) {
    if (start.worker < options_.num_ranks) throw;  // at the start nothing is lost by it
    master_.exited(start.worker, {.how = fmt::format("could not be started: {}", error.what())}, now_ns());
  }
}

void AgentLoop::act(const FormWorld& form) {
  std::erase_if(memories_, [&](const auto& entry) { return entry.first != form.left_generation; });
  const int size = static_cast<int>(form.members.size());
  try {
    memories_.try_emplace(form.generation, size, static_cast<int>(form.generation));
  } catch (const IoError& error) {
    master_.failed(fmt::format("generation {}: {}", form.generation, error.what()), now_ns());
    return;
  }
  watch_.formed();
  hangs_.formed(size);
  slow_.formed(size);
  release_pins_of(form.left_generation);
  const GenerationMemory& memory = memories_.at(form.generation);
  for (int rank = 0; rank < size; ++rank) {
    const FormWorld::Member& member = form.members[static_cast<size_t>(rank)];
    std::vector<int> descriptors = {memory.segment.fd(), memory.slots[static_cast<size_t>(rank)].get(),
                                    pulse_->fd()};
    for (const int left : member.left)
      descriptors.push_back(memories_.at(form.left_generation).slots.at(static_cast<size_t>(left)).get());
    send(member.worker,
         Meet{.generation = form.generation,
              .rank = rank,
              .size = size,
              .why = form.why,
              .left = member.left,
              .order = form.order},
         descriptors);
  }
}

void AgentLoop::act(const BreakWorld& broken) {
  if (!memories_.empty()) memories_.rbegin()->second.segment.mark_dead(broken.rank, broken.why);
}

void AgentLoop::act(const LeaveWorld& left) {
  if (!memories_.empty()) memories_.rbegin()->second.segment.mark_left(left.rank);
}

// Of what is held the oldest is what the last generation that had begun left.
void AgentLoop::keep_slots_of_last(int64_t generation) {
  const auto now = memories_.find(generation), last = memories_.begin();
  if (now == memories_.end() || now == last || now->second.size() != last->second.size()) return;
  now->second.slots = std::move(last->second.slots);
}

void AgentLoop::act(const ReleaseSlots& release) {
  std::erase_if(memories_, [&](const auto& entry) { return entry.first < release.before; });
}

void AgentLoop::act(const SendToWorker& to) {
  send(to.worker, to.message);
}

void AgentLoop::act(const SignalWorker& signal) {
  if (const RankProcess* one = processes_.find(signal.worker)) one->process.signal(signal.number);
  if (signal.number == SIGKILL) killed_by_[signal.worker] = "the launcher killed it";
}

void AgentLoop::act(const Say& say) {
  writer_.add((options_.terminal ? "\r\033[K" : "") + say.line + "\n");
}

// A worker that is gone is noticed by its process.
void AgentLoop::send(int worker, const AgentMessage& message, const std::vector<int>& descriptors) {
  RankProcess* one = processes_.find(worker);
  if (one == nullptr || !one->channel) return;
  try {
    one->channel->send(encode(message), descriptors);
  } catch (const IoError& error) {
    one->channel.reset();
    master_.refused(worker, error.what(), now_ns());
  }
}

}  // namespace athanor::launch
