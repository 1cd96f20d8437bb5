// kill-all: nobody is left but the launcher, which has the slots of each.
#include <csignal>

#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

class KillAll final : public Fault {
 public:
  FaultText text() const override {
    return {.name = "kill-all",
            .what = "SIGKILL to all ranks at once",
            .must = "the job recovers by itself, with the bits of the undisturbed run",
            .control = "launch.max_restarts = 0"};
  }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override {
    return dice.choose(num_ranks, num_ranks);
  }
  void inject(JobHandle& job, const Draw& draw) const override { job.strike(draw.ranks, SIGKILL); }
  Expectation expectation() const override { return {.most_redone_steps = 1}; }
};

}  // namespace

const Fault& kill_all_fault() {
  static const KillAll fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
