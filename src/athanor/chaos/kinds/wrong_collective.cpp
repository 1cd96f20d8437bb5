// skip, reorder, mismatch: one rank does not make the collective that the others make.
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

using Act = PlannedFault::Act;

class WrongCollective final : public Fault {
 public:
  WrongCollective(Act act, const char* name, const char* what) : act_(act), name_(name), what_(what) {}
  FaultText text() const override {
    return {.name = name_,
            .what = what_,
            .must =
                "named within a second; all ranks meet again, with the bits of the undisturbed run and the "
                "processes of all ranks",
            .control = "launch.max_restarts = 0"};
  }
  int least_ranks() const override { return 2; }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return {dice.below(num_ranks)}; }
  std::optional<PlannedFault> plan(const Draw& draw) const override {
    return PlannedFault{.act = act_, .where = draw.second};
  }
  // Ranks that wait in two groups for each other find no mismatch.
  std::vector<std::string> settings() const override { return {"launch.timeout_ms=5000"}; }
  void inject(JobHandle& job, const Draw&) const override { job.wait_for_plan(); }
  Expectation expectation() const override {
    return {.most_redone_steps = 1,
            .survivors = true,
            .named_by = "failure",
            .named_as = "the same collective",
            .named_within_seconds = 1.0};
  }

 private:
  Act act_;
  const char *name_, *what_;
};

}  // namespace

const Fault& skip_fault() {
  static const WrongCollective fault(Act::skip, "skip", "One rank leaves out one of its collectives");
  return fault;
}

const Fault& reorder_fault() {
  static const WrongCollective fault(Act::reorder, "reorder",
                                     "One rank makes a collective in place of the one that comes before it");
  return fault;
}

const Fault& mismatch_fault() {
  static const WrongCollective fault(Act::mismatch, "mismatch",
                                     "One rank makes a collective with one element less than the others");
  return fault;
}

}  // namespace athanor::chaos::kinds
