// Load balancer of a run (parallel.load_balance = "speed"): step times are measured, and at least parallel.load_balance_every
// steps apart the micro-batches are redistributed over the data-parallel ranks. Otherwise it does nothing.
//
//   LoadBalancer balancer(config, training);                    // after training.allocate()
//   if (balancer.after_step(step, result.seconds, goes_on))    // collective; true: the counts changed
//     report(balancer.counts()), read(training.own_micro_batches());  // the next step's micro-batches of this rank
//
// Groups::balance are the ranks that balance together (layout/groups.h).
// Errors: those of the group. Thread rule: one thread.
#pragma once

#include <optional>
#include <vector>

#include "athanor/engine/setup.h"
#include "athanor/parallel/data/load_balance.h"

namespace athanor::engine {

class LoadBalancer {
 public:
  LoadBalancer(const Config& config, Training& training);
  // `goes_on`: whether another step follows; the same on all ranks.
  bool after_step(int64_t step, const StepParts& seconds, bool goes_on);
  // Micro-batches of each data-parallel rank of this replica group.
  const std::vector<int64_t>& counts() const { return balance_->counts(); }

 private:
  Training& training_;
  std::optional<LoadBalance> balance_;
};

}  // namespace athanor::engine
