// Of the agent's loop, where its job may have several agents, one after the other: what this one takes over, and what it leaves.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/launch/agent_loop.h"

namespace athanor::launch {
namespace {

constexpr std::string_view kJobFileKey = "job-file ", kSegmentKey = "segment ", kSlotsKey = "slots ";

// "slots 3 1": {3, 1}; "segment 3": {3, 0}.
std::pair<int64_t, int64_t> numbers_of(std::string_view key) {
  std::pair<int64_t, int64_t> numbers{0, 0};
  key.remove_prefix(key.find(' ') + 1);
  const char* end = key.data() + key.size();
  const char* rest = std::from_chars(key.data(), end, numbers.first).ptr;
  if (rest != end) std::from_chars(rest + 1, end, numbers.second);
  return numbers;
}

}  // namespace

void AgentLoop::adopt() {
  job_ = keeper_->given.job;
  pulse_.emplace(std::move(keeper_->pulse));
  desk_.emplace(std::move(keeper_->desk), keeper_->given.desk);
  for (RankGiven& rank : keeper_->ranks) {
    Worker process(static_cast<pid_t>(rank.started.pid), std::move(rank.process), std::move(rank.errors));
    processes_.adopt(rank.started.worker, {rank.started.rank, std::move(process)});
  }
  JobPlace place = this_place();
  place.pid = keeper_->given.keeper;
  place.socket = desk_->path();
  for (auto& [key, descriptor] : keeper_->kept)
    if (key.starts_with(kJobFileKey))
      job_file_.adopt(key.substr(kJobFileKey.size()), std::move(descriptor), place);
  adopt_memories();
}

// What is there of a generation is all of it, unless its agent was killed before anybody was told of it.
void AgentLoop::adopt_memories() {
  std::map<int64_t, std::pair<Descriptor, std::map<int64_t, Descriptor>>> found;
  for (auto& [key, descriptor] : keeper_->kept) {
    const auto [generation, rank] = numbers_of(key);
    if (key.starts_with(kSegmentKey))
      found[generation].first = std::move(descriptor);
    else if (key.starts_with(kSlotsKey))
      found[generation].second[rank] = std::move(descriptor);
  }
  for (auto& [generation, memory] : found) {
    std::vector<Descriptor> slots;
    for (auto& [rank, descriptor] : memory.second) slots.push_back(std::move(descriptor));
    if (memory.first.get() >= 0) memories_.try_emplace(generation, std::move(memory.first), std::move(slots));
  }
}

void AgentLoop::go_on_where_left() {
  newest_ = master_.left_off();
  if (newest_) {
    watches_.stopped.formed();
    watches_.hangs.formed(static_cast<int>(newest_->members.size()));
  }
  const TakeUp& given = keeper_->given;
  if (!given.begun_in.empty()) {
    record_.go_on(given.begun_in);
    newest_step_ = master_.step();
    open_run(given.begun_in);
  }
  hold();
  if (!given.replaces.empty())
    act(Say{fmt::format("the agent of the job {}: another one takes over", given.replaces)});
}

// Once all is done that the agent before this one may have done, too.
void AgentLoop::tell_takeover() {
  const std::string& why = keeper_->given.replaces;
  if (why.empty()) return;
  record_.add({.event = "agent",
               .step = master_.step(),
               .generation = master_.generation(),
               .cause = fmt::format("the agent {}", why)});
}

// What the next agent would need.
void AgentLoop::hold() {
  if (keeper_ == nullptr || is_alone_) return;
  std::map<std::string, int> all;
  if (job_file_.fd() >= 0) all[std::string(kJobFileKey) + job_file_.path()] = job_file_.fd();
  for (const auto& [generation, memory] : memories_) {
    all[fmt::format("{}{}", kSegmentKey, generation)] = memory.segment.fd();
    for (size_t rank = 0; rank < memory.slots.size(); ++rank)
      all[fmt::format("{}{} {}", kSlotsKey, generation, rank)] = memory.slots[rank].get();
  }
  keeper_->hold(all);
}

void AgentLoop::take_keeper() {
  for (const KeeperMessage& message : keeper_->take()) {
    if (const auto* stop = std::get_if<StopAskedFor>(&message)) take_stop(stop->signal, stop->at_ns);
    if (const auto* asked = std::get_if<Pause>(&message); asked != nullptr && asked->pauses) pause();
  }
  if (!keeper_->is_gone() || std::exchange(is_alone_, true)) return;
  act(Say{"the launcher is gone: the ranks save and end"});
  if (master_.stop_signal() == 0) master_.stop(SIGTERM, false, now_ns());
}

// Until the launcher runs again. This process goes on, so that its ranks have an agent whatever becomes of the launcher.
void AgentLoop::pause() {
  processes_.signal_all(SIGSTOP);
  keeper_->tell(Paused{});
  std::vector<KeeperMessage> later;
  for (bool pauses = true; pauses && !keeper_->is_gone();) {
    keeper_->wait(-1);
    for (const KeeperMessage& message : keeper_->take()) {
      const auto* asked = std::get_if<Pause>(&message);
      if (asked != nullptr) pauses = asked->pauses;
      if (asked == nullptr) later.push_back(message);
    }
  }
  processes_.signal_all(SIGCONT);
  for (const KeeperMessage& message : later)
    if (const auto* stop = std::get_if<StopAskedFor>(&message)) take_stop(stop->signal, stop->at_ns);
}

}  // namespace athanor::launch
