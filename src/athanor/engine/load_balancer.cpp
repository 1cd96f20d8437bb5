#include "athanor/engine/load_balancer.h"

namespace athanor::engine {

LoadBalancer::LoadBalancer(const Config& config, Training& training) : training_(training) {
  if (training.layout().shares != Shares::by_speed) return;
  Group& group = *training.groups().balance;
  balance_.emplace(group, balance_units(training.layout(), group.size()),
                   training.role->summed_micro_batches(training.num_micro_batches),
                   BalanceOptions{.every = config.parallel.load_balance_every});
}

bool LoadBalancer::after_step(int64_t step, const StepParts& seconds, bool goes_on) {
  if (!balance_) return false;
  balance_->add(seconds.forward + seconds.backward);
  if (!goes_on || !balance_->due(step)) return false;
  const bool anew = balance_->rebalance();
  training_.role->gradients()->share_micro_batches(balance_->counts());  // servers always expect it
  return anew;
}

}  // namespace athanor::engine
