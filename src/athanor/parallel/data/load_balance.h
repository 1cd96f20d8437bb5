// Load balancing for ranks of unequal speed (parallel.load_balance): how many micro-batches each data-parallel rank
// takes, in proportion to its measured speed.
//
//   LoadBalance balance(group, /*units=*/{0, 0, 1, 1}, /*num_micro_batches=*/64, {.every = 20});   // two pairs of ranks
//   balance.add(seconds_of_my_micro_batches);              // after each step: this rank's compute time, without waiting
//   if (balance.due(step) && balance.rebalance()) ...    // collective; true: counts() have changed
//   parallel.share_micro_batches(balance.counts());        // DataParallel: consecutive micro-batches, unit after unit
//
// A unit is one data-parallel rank: the ranks of pp, cp and tp that compute the same micro-batches. rebalance() makes a
// new partition: a rank's time per micro-batch is the median over the steps since the last rebalance(), and a unit is as
// slow as its slowest rank. One f64 per rank is all-gathered, so all ranks decide alike. Counts change only if that
// shortens the time of the slowest unit by more than `threshold`, so noise changes nothing. Each unit has one micro-batch
// at least, each micro-batch one unit (law 3). With Reduce::tree the bits do not depend on the counts (law 5); with
// Reduce::fast they do. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/comm/tree.h"

namespace athanor::parallel::data {

// Minimizes the time of the slowest unit, max over u of counts[u] * seconds_per_micro_batch[u]; returns the counts.
// Error: fewer micro-batches than units, or times that are not positive.
std::vector<int64_t> share_micro_batches(int64_t num_micro_batches,
                                         const std::vector<double>& seconds_per_micro_batch);

struct BalanceOptions {
  int64_t every = 50;       // steps between two rebalances
  double threshold = 0.05;  // fraction of the slowest unit's time that a change must save
};

class LoadBalance {
 public:
  // units[r]: the unit of rank r of the group. Error if units are not numbered from 0 without a gap.
  LoadBalance(Group& group, std::vector<int> units, int64_t num_micro_batches, const BalanceOptions& options);
  void add(double seconds);
  bool due(int64_t step) const { return step % options_.every == 0; }
  bool rebalance();
  const std::vector<int64_t>& counts() const { return counts_; }  // by unit

 private:
  Group& group_;
  std::vector<int> units_;  // by rank
  int64_t num_micro_batches_;
  BalanceOptions options_;
  std::vector<int64_t> counts_;
  std::vector<double> seconds_;  // per micro-batch, for each step since the last rebalance()
};

}  // namespace athanor::parallel::data
