// stop: one rank is stopped, as by SIGSTOP of somebody who forgot it, and does not go on by itself.
#include <csignal>

#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

class Stop final : public Fault {
 public:
  FaultText text() const override {
    return {
        .name = "stop",
        .what = "SIGSTOP to one rank",
        .must = "the launcher names it within a second, kills it after ten and starts it again; as of kill",
        .control = "launch.max_restarts = 0"};
  }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return {dice.below(num_ranks)}; }
  void inject(JobHandle& job, const Draw& draw) const override { job.strike(draw.ranks, SIGSTOP); }
  Expectation expectation() const override {
    return {.most_redone_steps = 1, .survivors = true, .named_by = "stopped", .named_within_seconds = 1.0};
  }
};

}  // namespace

const Fault& stop_fault() {
  static const Stop fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
