// delay: one rank makes a collective late, but within the time that the others wait.
#include <cmath>

#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

constexpr double kLeastDelay = 0.1, kMostDelay = 2.0;

class Delay final : public Fault {
 public:
  FaultText text() const override {
    return {
        .name = "delay",
        .what = "One rank makes one of its collectives 0.1 to 2 s late",
        .must =
            "nothing is taken for a failure, no process ends, and the bits are those of the undisturbed run",
        .control = "launch.timeout_ms is half of the delay"};
  }
  int least_ranks() const override { return 2; }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return {dice.below(num_ranks)}; }
  std::optional<PlannedFault> plan(const Draw& draw) const override {
    double unused = 0.0;
    const double share = draw.is_control ? 1.0 : std::modf(draw.second * 1024.0, &unused);
    return PlannedFault{.act = PlannedFault::Act::delay,
                        .where = draw.second,
                        .amount = kLeastDelay + share * (kMostDelay - kLeastDelay)};
  }
  void inject(JobHandle& job, const Draw&) const override { job.wait_for_plan(); }
  Expectation expectation() const override { return {.survivors = true, .no_failure = true}; }
  std::vector<std::string> control_settings() const override { return {"launch.timeout_ms=1000"}; }
};

}  // namespace

const Fault& delay_fault() {
  static const Delay fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
