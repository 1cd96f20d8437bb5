// flip-parameter, flip-gradient: a bit flips in what one of several replicas holds alike.
#include <csignal>

#include "athanor/base/clock.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"
#include "athanor/chaos/slot_memory.h"

namespace athanor::chaos::kinds {
namespace {

constexpr int kMostTries = 200;
constexpr int64_t kStopNs = 5'000'000, kBetweenNs = 3'000'000;

class FlipReplica : public Fault {
 public:
  int least_ranks() const override { return 2; }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return {dice.below(num_ranks)}; }
  std::vector<std::string> settings() const override {
    return {"guard.state_hash=act", "guard.state_hash_every=1", "checkpoint.every_steps=20"};
  }
  Expectation expectation() const override {
    return {.most_redone_steps = kAnySteps,
            .no_failure = true,
            .named_by = "guard",
            .named_as = "replicas agreed"};
  }
  std::vector<std::string> control_settings() const override { return {"guard.state_hash=warn"}; }

 protected:
  FaultText text_of(const char* name, const char* what) const {
    return {.name = name,
            .what = what,
            .must =
                "the guard finds it, and the run goes back to a state on which all agreed; nothing is taken "
                "for a "
                "failure, no process ends, and the bits are those of the undisturbed run",
            .control = "guard.state_hash = \"warn\""};
  }
};

class FlipParameter final : public FlipReplica {
 public:
  FaultText text() const override {
    return text_of("flip-parameter", "A bit flips in weights or optimizer state of one rank");
  }
  // Between two updates: what an update has read already does not matter any more.
  void inject(JobHandle& job, const Draw& draw) const override {
    for (int tries = 0; tries < kMostTries; ++tries) {
      job.strike(draw.ranks, SIGSTOP);
      job.wait([] { return false; }, now_ns() + kStopNs);
      auto slots = SlotMemory::of_rank(job.launcher_pid(), draw.ranks.front());
      const bool is_between = slots && !slots->is_being_written();
      if (is_between && draw.is_control) slots->falsify();
      if (is_between && !draw.is_control) slots->flip(draw.second);
      job.signal(draw.ranks, SIGCONT);
      if (is_between) return;
      job.wait([] { return false; }, now_ns() + kBetweenNs);
    }
    job.note("the rank was never between two updates");
  }
};

class FlipGradient final : public FlipReplica {
 public:
  FaultText text() const override {
    return text_of("flip-gradient", "A bit flips in a sum of gradients on one rank");
  }
  std::optional<PlannedFault> plan(const Draw& draw) const override {
    // The control has to change the bits of the run: a low bit may be rounded away.
    return PlannedFault{.act = PlannedFault::Act::flip_gradient,
                        .amount = draw.second + (draw.is_control ? 1.0 : 0.0)};
  }
  void inject(JobHandle& job, const Draw&) const override { job.wait_for_plan(); }
};

}  // namespace

const Fault& flip_parameter_fault() {
  static const FlipParameter fault;
  return fault;
}

const Fault& flip_gradient_fault() {
  static const FlipGradient fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
