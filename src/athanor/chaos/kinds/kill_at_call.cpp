// kill-at-call: a rank dies between two of its system calls, also those of a save.
#include <fmt/core.h>

#include <csignal>

#include "athanor/base/clock.h"
#include "athanor/chaos/call_trap.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

constexpr double kMostCalls = 300.0;
constexpr int64_t kCallsWithinNs = 2'000'000'000;

class KillAtCall final : public Fault {
 public:
  FaultText text() const override {
    return {.name = "kill-at-call",
            .what =
                "SIGKILL to one rank at the entry of one of the next 300 system calls of its main thread, by "
                "ptrace",
            .must = "as of kill",
            .control = "launch.max_restarts = 0"};
  }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return {dice.below(num_ranks)}; }
  std::vector<std::string> settings() const override { return {"checkpoint.every_steps=3"}; }
  void inject(JobHandle& job, const Draw& draw) const override {
    CallTrap trap(job.pid_of(draw.ranks.front()));
    const auto call = 1 + static_cast<int64_t>(draw.second * kMostCalls);
    // A rank that makes no more so many, since it ends, dies where it is.
    if (!trap.run_to(call, now_ns() + kCallsWithinNs) && !trap.refused().empty())
      job.note("the rank may not be traced: " + trap.refused());
    job.strike(draw.ranks, SIGKILL);
  }
  Expectation expectation() const override { return {.most_redone_steps = 1, .survivors = true}; }
};

}  // namespace

const Fault& kill_at_call_fault() {
  static const KillAtCall fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
