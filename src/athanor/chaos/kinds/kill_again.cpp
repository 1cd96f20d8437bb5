// kill-again: a second rank dies while the job recovers from the first one's death.
#include <csignal>

#include "athanor/base/clock.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

constexpr double kMostSecondSeconds = 0.1;

class KillAgain final : public Fault {
 public:
  FaultText text() const override {
    return {.name = "kill-again",
            .what = "SIGKILL to one rank, and to another one before the job has recovered",
            .must = "as of kill",
            .control = "launch.max_restarts = 0"};
  }
  int least_ranks() const override { return 2; }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return dice.choose(2, num_ranks); }
  void inject(JobHandle& job, const Draw& draw) const override {
    job.strike({draw.ranks[0]}, SIGKILL);
    const auto delay_ns = static_cast<int64_t>(draw.second * kMostSecondSeconds * 1e9);
    job.wait([&] { return job.has_recovered(); }, now_ns() + delay_ns);
    job.strike({draw.ranks[1]}, SIGKILL);
  }
  Expectation expectation() const override { return {.most_redone_steps = 1, .survivors = true}; }
};

}  // namespace

const Fault& kill_again_fault() {
  static const KillAgain fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
