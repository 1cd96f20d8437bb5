// nan-gradient: a rank computes a gradient that is not a number, once.
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

class NanGradient final : public Fault {
 public:
  FaultText text() const override {
    return {
        .name = "nan-gradient",
        .what = "NaN in a gradient of one rank",
        .must = "the step runs again, with the bits of the undisturbed run and the processes of all ranks",
        .control = "guard.not_finite = \"off\""};
  }
  int least_ranks() const override { return 2; }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return {dice.below(num_ranks)}; }
  std::optional<PlannedFault> plan(const Draw&) const override {
    return PlannedFault{.act = PlannedFault::Act::nan_gradient};
  }
  void inject(JobHandle& job, const Draw&) const override { job.wait_for_plan(); }
  Expectation expectation() const override { return {.survivors = true, .no_failure = true}; }
  std::vector<std::string> control_settings() const override { return {"guard.not_finite=off"}; }
};

}  // namespace

const Fault& nan_gradient_fault() {
  static const NanGradient fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
