// Of the agent's loop: a job that stands still is told, with where its ranks stand; the rank that the others wait for is killed
// where a setting wants it, or when they have waited for launch.timeout_ms.
#include <fmt/core.h>

#include <chrono>
#include <csignal>
#include <map>
#include <utility>

#include "athanor/launch/agent_loop.h"

namespace athanor::launch {
namespace {

constexpr int64_t kStacksMs = 500;  // of one process

std::vector<RankStacks> stacks_of(const std::map<int, pid_t>& processes) {
  std::vector<RankStacks> all;
  for (const auto& [rank, process] : processes) all.push_back({rank, take_stacks(process, kStacksMs)});
  return all;
}

}  // namespace

void AgentLoop::look_for_hang(int64_t now_ns) {
  if (!control_ || options_.hang == HangAction::off || now_ns - watches_.hang_look_ns < kLookNs) return;
  watches_.hang_look_ns = now_ns;
  const auto found = watches_.hangs.look(now_ns, !watches_.stopped.sees_stopped());
  const bool is_asking = watches_.hang.stacks.valid() &&
                         watches_.hang.stacks.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  if (is_asking) return;
  if (!found) {
    watches_.hang = AgentWatches::Hang{};
    return;
  }
  const bool is_over = found->still_ns >= options_.timeout_ms * 1'000'000;
  if (watches_.hang.stacks.valid()) {
    tell(*found, report_of(*found, watches_.hang.stacks.get()), is_over || options_.hang == HangAction::act);
  } else if (!watches_.hang.is_told || (is_over && !watches_.hang.was_over)) {
    watches_.hang.was_over = is_over;
    std::map<int, pid_t> processes;
    for (const int worker : processes_.running()) {
      const RankProcess& one = *processes_.find(worker);
      processes[one.rank] = one.process.pid();
    }
    // Not on this thread, which has signals and messages to answer.
    watches_.hang.stacks = std::async(std::launch::async, stacks_of, std::move(processes));
  }
}

void AgentLoop::tell(const Standstill& found, const HangReport& report, bool may_kill) {
  if (!std::exchange(watches_.hang.is_told, true)) {
    act(Say{report.sentence + (report.lines.empty() ? "" : ":\n" + report.lines)});
    record_.add({.event = "hang",
                 .step = master_.step(),
                 .generation = master_.generation(),
                 .rank = report.rank.value_or(-1),
                 .cause = report.sentence,
                 .detect_seconds = static_cast<double>(found.still_ns) * 1e-9});
  }
  if (!may_kill || !report.rank) return;
  const int worker = master_.worker_of(*report.rank);
  const RankProcess* one = processes_.find(worker);
  if (one == nullptr) return;
  killed_because_[worker] = fmt::format("held up the others for {:.3g} s and was killed",
                                        static_cast<double>(found.still_ns) * 1e-9);
  one->process.signal(SIGKILL);
}

}  // namespace athanor::launch
