// How many grains each rank takes where ranks are not equally fast: in proportion to the speed that was measured.
//
//   GrainBalance balance(group, /*num_grains=*/64, {.every = 20});
//   balance.add(seconds_of_my_grains);              // after each step: what this rank computed, without its waiting
//   if (balance.due(step) && balance.deal()) ...    // collective; true: counts() are others than before
//   parallel.share_grains(balance.counts());        // ReplicatedGradients: neighbouring grains, rank after rank
//
// A rank's time for a grain is the median over the steps since the last deal. deal() exchanges these, one f64 a rank, so
// that all ranks decide alike; counts change only where that would shorten the slowest rank's part by more than
// `threshold`, so noise moves nothing. Each rank has one grain at least, each grain one rank (law 3). With Reduce::tree
// the bits of a run do not depend on who computes what (law 5); with Reduce::fast they would.
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/comm/tree.h"

namespace athanor {

// So that the slowest rank is done as early as can be: max over ranks of counts[r] * seconds_per_grain[r] is least.
// Error: fewer grains than ranks, or times that are not positive.
std::vector<int64_t> share_grains(int64_t num_grains, const std::vector<double>& seconds_per_grain);

struct BalanceOptions {
  int64_t every = 50;       // steps between two deals, at least
  double threshold = 0.05;  // of the slowest rank's time
};

class GrainBalance {
 public:
  GrainBalance(Group& group, int64_t num_grains, const BalanceOptions& options);
  void add(double seconds);
  bool due(int64_t step) const { return step % options_.every == 0; }
  bool deal();
  const std::vector<int64_t>& counts() const { return counts_; }  // by rank

 private:
  Group& group_;
  int64_t num_grains_;
  BalanceOptions options_;
  std::vector<int64_t> counts_;
  std::vector<double> seconds_;  // per grain, of the steps since the last deal
};

}  // namespace athanor
