// kill-several: rank 0, which writes the run's files, and others with it, but not all.
#include <csignal>

#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

class KillSeveral final : public Fault {
 public:
  FaultText text() const override {
    return {.name = "kill-several",
            .what = "SIGKILL to several ranks at once, rank 0 among them",
            .must = "as of kill",
            .control = "launch.max_restarts = 0"};
  }
  int least_ranks() const override { return 3; }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override {
    const int others = 1 + dice.below(num_ranks - 2);
    std::vector<int> ranks = dice.choose(others, num_ranks, {0});
    ranks.insert(ranks.begin() + dice.below(others + 1), 0);
    return ranks;
  }
  void inject(JobHandle& job, const Draw& draw) const override { job.strike(draw.ranks, SIGKILL); }
  Expectation expectation() const override { return {.most_redone_steps = 1, .survivors = true}; }
};

}  // namespace

const Fault& kill_several_fault() {
  static const KillSeveral fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
