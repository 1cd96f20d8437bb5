// Tunes a run while it trains (launch.tune): the steps of a segment are measured, and by them a setting is tried, kept, undone or
// proposed. Settings are train.micro_batch_size, then train.threads; each is a decision of the run (run/decisions), so a
// resume keeps it, and `train --decisions` computes the same bits.
//
//   Tuner tuner(run, phase, plan);                                 // of a segment
//   if (tuner.after_step(seconds)) end_the_segment();     // a setting changes before the next step
//
// After kWarmUp steps kMeasured are measured; then the ranks compare: a step took as long as it did on the slowest. apply:
// what is tried was predicted by nothing, it is measured, and judged against the steps before it (step_times.h). propose:
// there is no measurement of what was not tried, so a rule speaks (proposal.h), and the run stays as it is. A try that
// nobody measured to its end, since all processes are new, is undone.
//
// With decisions given from outside (TrainIo::decisions), or some still to come, nothing is tuned. Errors: those of the group.
// Thread rule: one thread per rank; after_step() is collective in one step of a segment, the same on all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "athanor/engine/memory_plan.h"
#include "athanor/run/run.h"
#include "athanor/run/tuning/fit.h"
#include "athanor/run/tuning/standing.h"
#include "athanor/run/tuning/step_times.h"

namespace athanor::run::tuning {

constexpr int64_t kWarmUp = 2, kMeasured = 10, kStepsOfTry = kWarmUp + kMeasured;  // steps
constexpr int64_t kMostTries = 12;                                                 // of a phase

class Tuner {
 public:
  // `plan`: of the phase as it is. All outlive it.
  Tuner(Run& run, const RunPhase& phase, const MemoryPlan& plan);
  // `seconds`: of the step that was done last. True: a decision holds from the next step on that changes a setting.
  bool after_step(double seconds);

 private:
  void gather();  // what the ranks have measured
  bool apply();
  void propose();
  bool judge(const Standing& standing);  // whether what was tried stays
  std::optional<Decision> next_try(const Standing& standing);
  Fit fit_of_size(int64_t micro_batch_size) const;  // collective
  int64_t share_of_processors() const;              // in threads
  void take(const Decision& decision, double lost_seconds);
  void tell(const std::string& what, double lost_seconds = 0.0);

  Run& run_;
  const RunPhase& phase_;
  const MemoryPlan& plan_;
  const bool is_on_;
  std::vector<double> seconds_ = {};  // of the steps of this segment
  StepTimes now_ = {};                // of all ranks
  double switch_seconds_ = 0.0;
  bool have_same_threads_ = false;
};

}  // namespace athanor::run::tuning
