// How many grains each unit takes where units are not equally fast: in proportion to the speed that was measured. A unit
// are the ranks that compute the same grains, each its part of them (pp, cp, tp); without these axes it is a rank.
//
//   GrainBalance balance(group, /*units=*/{0, 0, 1, 1}, /*num_grains=*/64, {.every = 20});   // two pairs
//   balance.add(seconds_of_my_grains);              // after each step: what this rank computed, without its waiting
//   if (balance.due(step) && balance.deal()) ...    // collective; true: counts() are others than before
//   parallel.share_grains(balance.counts());        // ReplicatedGradients: neighbouring grains, unit after unit
//
// A rank's time for a grain is the median over the steps since the last deal, a unit's that of its slowest rank, which the
// others wait for. deal() exchanges these, one f64 a rank, so that all ranks decide alike; counts change only where that
// would shorten the slowest unit's part by more than `threshold`, so noise moves nothing. Each unit has one grain at least,
// each grain one unit (law 3). With Reduce::tree the bits of a run do not depend on who computes what (law 5); with
// Reduce::fast they would.
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/comm/tree.h"

namespace athanor {

// So that the slowest unit is done as early as can be: max over units of counts[u] * seconds_per_grain[u] is least.
// Error: fewer grains than units, or times that are not positive.
std::vector<int64_t> share_grains(int64_t num_grains, const std::vector<double>& seconds_per_grain);

struct BalanceOptions {
  int64_t every = 50;       // steps between two deals, at least
  double threshold = 0.05;  // of the slowest unit's time
};

class GrainBalance {
 public:
  // units[r]: which one rank r of the group is of; Error if they are not numbered from 0 without a gap.
  GrainBalance(Group& group, std::vector<int> units, int64_t num_grains, const BalanceOptions& options);
  // Every rank is a unit.
  GrainBalance(Group& group, int64_t num_grains, const BalanceOptions& options);
  void add(double seconds);
  bool due(int64_t step) const { return step % options_.every == 0; }
  bool deal();
  const std::vector<int64_t>& counts() const { return counts_; }  // by unit

 private:
  Group& group_;
  std::vector<int> units_;  // by rank
  int64_t num_grains_;
  BalanceOptions options_;
  std::vector<int64_t> counts_;
  std::vector<double> seconds_;  // per grain, of the steps since the last deal
};

}  // namespace athanor
