// Of the agent's loop: ranks whose process is stopped are named, and killed where that lasts; slow ones, and those whose
// memory grows, are named.
#include <fmt/core.h>

#include <csignal>
#include <map>
#include <vector>

#include "athanor/base/host_memory.h"
#include "athanor/launch/agent_loop.h"
#include "athanor/launch/diagnosis/process_counters.h"
#include "athanor/launch/diagnosis/stacks.h"

namespace athanor::launch {

void AgentLoop::look_at_ranks(int64_t now_ns) {
  if (!control_ || !watches_.stopped.wants_states(now_ns)) return;
  std::vector<SeenState> states;
  std::map<int, int> workers;  // by rank
  for (const int worker : processes_.running()) {
    const RankProcess& one = *processes_.find(worker);
    states.push_back({one.rank, process_state(one.process.pid())});
    workers[one.rank] = worker;
  }
  for (const auto& [rank, worker] : workers) {
    RankProcess& one = *processes_.find(worker);
    if (one.left_ns == 0 || now_ns - one.left_ns < options_.stopped_ms * 1'000'000) continue;
    one.left_ns = 0;
    killed_because_[worker] = fmt::format("had left, did not end within {:.3g} s and was killed",
                                          1e-3 * static_cast<double>(options_.stopped_ms));
    one.process.signal(SIGKILL);
  }
  for (const StoppedRank& found : watches_.stopped.look(now_ns, states))
    if (const auto worker = workers.find(found.rank); worker != workers.end()) tell(found, worker->second);
}

void AgentLoop::tell(const StoppedRank& found, int worker) {
  const RankProcess& one = *processes_.find(worker);
  const double seconds = static_cast<double>(found.stopped_ns) * 1e-9;
  const std::string name = fmt::format("rank {}", options_.first_rank + found.rank);
  if (found.what == StoppedRank::What::ended) {
    act(Say{fmt::format("{} runs again after {:.1f} s", name, seconds)});
    return;
  }
  if (found.what == StoppedRank::What::too_long) {
    killed_because_[worker] = fmt::format("was stopped for {:.3g} s and killed", seconds);
    one.process.signal(SIGKILL);
    return;
  }
  const int64_t process = one.process.pid();
  const bool is_traced = found.state == 't';
  const std::string cause = is_traced ? "is held by a debugger" : "is stopped (by SIGSTOP or SIGTSTP)";
  const std::string then =
      is_traced ? "the others wait for it"
                : fmt::format("kill -CONT {} lets it go on; else it is killed in {:.3g} s", process,
                              static_cast<double>(watches_.stopped.limit_ns() - found.stopped_ns) * 1e-9);
  act(Say{fmt::format("{} {}: {}", name, cause, then)});
  record_.add({.event = "stopped",
               .step = master_.step(),
               .generation = master_.generation(),
               .rank = found.rank,
               .cause = fmt::format("process {} {}", process, cause)});
}

void AgentLoop::look_for_slow(int worker, const Progress& progress, int64_t now_ns) {
  if (!options_.tells_slow || progress.generation != master_.generation()) return;
  if (now_ns - watches_.delay_look_ns >= kLookNs) {
    watches_.delay_look_ns = now_ns;
    for (const int one : processes_.running()) {
      const RankProcess& process = *processes_.find(one);
      watches_.slow.delayed(process.rank, processor_delay_ns(process.process.pid()));
    }
  }
  for (const SlowRank& found : watches_.slow.progress(processes_.find(worker)->rank, progress)) {
    const double seconds = static_cast<double>(found.slow_ns) * 1e-9;
    const bool began = found.what == SlowRank::What::began;
    act(Say{sentence_of(found, options_.first_rank)});
    record_.add({.event = "slow",
                 .step = found.step,
                 .generation = master_.generation(),
                 .rank = found.rank,
                 .cause = sentence_of(found, options_.first_rank),
                 .detect_seconds = began ? seconds : -1.0,
                 .recover_seconds = began ? -1.0 : seconds});
  }
}

void AgentLoop::look_at_hardware(int64_t now_ns) {
  watches_.hardware_look_ns = now_ns;
  for (const std::string& found : watches_.hardware.look()) {
    act(Say{"the machine: " + found});
    record_.add(
        {.event = "hardware", .step = master_.step(), .generation = master_.generation(), .cause = found});
  }
}

void AgentLoop::look_at_memory(int64_t now_ns) {
  if (!watches_.memory.is_due(now_ns)) return;
  watches_.memory.taken(now_ns);
  const auto left = static_cast<double>(available_memory_bytes(options_.system_root));
  for (const int worker : processes_.running()) {
    const RankProcess& one = *processes_.find(worker);
    const MemorySample sample{
        .step = newest_step_, .bytes = own_memory_bytes(one.process.pid()), .at_ns = now_ns};
    const auto found = watches_.memory.sample(one.rank, sample, left / processes_.running().size());
    if (!found) continue;
    const std::string sentence = sentence_of(*found, options_.first_rank, left, watches_.memory.num_told());
    act(Say{sentence});
    record_.add({.event = "memory-growth",
                 .step = found->last_step,
                 .generation = master_.generation(),
                 .rank = found->rank,
                 .cause = sentence});
  }
}

}  // namespace athanor::launch
