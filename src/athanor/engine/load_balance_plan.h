// The distributions of micro-batches that load balancing may choose and that need the most memory on this rank: a memory
// plan runs steps with each. There are none where micro-batches are shared evenly.
//
//   const PlannedShares shares(training, micro_batches);    // after training.allocate()
//   for (size_t i = 0; i < shares.count(); ++i) { shares.use(i); }     // and a step with each
//
// Thread rule: one thread.
#pragma once

#include <vector>

#include "athanor/engine/setup.h"

namespace athanor::engine {

class PlannedShares {
 public:
  PlannedShares(const Training& training, int64_t micro_batches_of_step);
  size_t count() const { return counts_.size(); }
  void use(size_t i) const;                     // from the next step on
  int64_t buffers() const { return buffers_; }  // the most buffers of partial sums

 private:
  const Training& training_;
  std::vector<std::vector<int64_t>> counts_;  // of each distribution: micro-batches by data-parallel rank
  int64_t buffers_ = 0;
};

}  // namespace athanor::engine
