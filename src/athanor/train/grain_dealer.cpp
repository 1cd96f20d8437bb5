#include "athanor/train/grain_dealer.h"

namespace athanor {

GrainDealer::GrainDealer(const Config& config, Training& training) : training_(training) {
  if (config.parallel.load_balance != "speed") return;
  const GrainDealers& dealers = training.grain_dealers();
  balance_.emplace(*dealers.group, dealers.units, training.grains_of_island(),
                   BalanceOptions{.every = config.parallel.load_balance_every});
}

bool GrainDealer::after_step(int64_t step, const StepParts& seconds, bool goes_on) {
  if (!balance_) return false;
  balance_->add(seconds.forward + seconds.backward);
  if (!goes_on || !balance_->due(step)) return false;
  const bool anew = balance_->deal();
  if (anew || training_.client) training_.share_grains(balance_->counts());  // servers expect it every time
  return anew;
}

}  // namespace athanor
