// Grains by measured speed in a run (parallel.load_balance = "speed"): what a rank's steps took goes in, and every
// parallel.load_balance_every steps its unit may get other grains. Without it nothing is dealt.
//
//   GrainDealer dealer(config, training);                    // after training.allocate()
//   if (dealer.after_step(step, result.seconds, goes_on))    // collective
//     report(dealer.counts()), read(training.own_grains());  // others from the next step on
//
// Who deals together and what a unit is: Training::grain_dealers(). Thread rule: one thread.
#pragma once

#include <optional>
#include <vector>

#include "athanor/parallel/grain_balance.h"
#include "athanor/train/setup.h"

namespace athanor {

class GrainDealer {
 public:
  GrainDealer(const Config& config, Training& training);
  // `goes_on`: another step follows, which all ranks know alike.
  bool after_step(int64_t step, const StepParts& seconds, bool goes_on);
  const std::vector<int64_t>& counts() const { return balance_->counts(); }  // by unit, of this island

 private:
  Training& training_;
  std::optional<GrainBalance> balance_;
};

}  // namespace athanor
