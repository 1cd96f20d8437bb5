// kill: one rank is gone without a word.
#include <csignal>

#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

class Kill final : public Fault {
 public:
  FaultText text() const override {
    return {.name = "kill",
            .what = "SIGKILL to one rank",
            .must =
                "the job recovers by itself, with the bits of the undisturbed run and the processes of the "
                "others",
            .control = "launch.max_restarts = 0"};
  }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return {dice.below(num_ranks)}; }
  void inject(JobHandle& job, const Draw& draw) const override { job.strike(draw.ranks, SIGKILL); }
  Expectation expectation() const override { return {.most_redone_steps = 1, .survivors = true}; }
};

}  // namespace

const Fault& kill_fault() {
  static const Kill fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
