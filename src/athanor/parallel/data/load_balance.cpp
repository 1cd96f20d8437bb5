#include "athanor/parallel/data/load_balance.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/median.h"

namespace athanor::parallel::data {
namespace {

double slowest(const std::vector<int64_t>& counts, const std::vector<double>& seconds_per_micro_batch) {
  double most = 0.0;
  for (size_t u = 0; u < counts.size(); ++u)
    most = std::max(most, static_cast<double>(counts[u]) * seconds_per_micro_batch[u]);
  return most;
}

void check_times(const std::vector<double>& seconds_per_micro_batch) {
  for (const double seconds : seconds_per_micro_batch)
    check(std::isfinite(seconds) && seconds > 0.0,
          "load balancing: got {} seconds for a micro-batch, expected a positive time", seconds);
}

}  // namespace

// Each unit gets one micro-batch; every further one goes to the unit that would finish it first, the lowest of equals.
std::vector<int64_t> share_micro_batches(int64_t num_micro_batches,
                                         const std::vector<double>& seconds_per_micro_batch) {
  const auto units = static_cast<int64_t>(seconds_per_micro_batch.size());
  check(1 <= units && units <= num_micro_batches,
        "load balancing: got {} micro-batches for {} data-parallel ranks, expected one each at least",
        num_micro_batches, units);
  check_times(seconds_per_micro_batch);
  std::vector<int64_t> counts(seconds_per_micro_batch.size(), 1);
  for (int64_t left = num_micro_batches - units; left > 0; --left) {
    size_t best = 0;
    const auto done_at = [&](size_t u) {
      return static_cast<double>(counts[u] + 1) * seconds_per_micro_batch[u];
    };
    for (size_t u = 1; u < counts.size(); ++u)
      if (done_at(u) < done_at(best)) best = u;
    ++counts[best];
  }
  return counts;
}

LoadBalance::LoadBalance(Group& group, std::vector<int> units, int64_t num_micro_batches,
                         const BalanceOptions& options)
    : group_(group), units_(std::move(units)), num_micro_batches_(num_micro_batches), options_(options) {
  check(options.every >= 1, "load balancing: got a rebalance every {} steps, expected at least 1",
        options.every);
  check(std::ssize(units_) == group.size(),
        "load balancing: got the data-parallel ranks of {} ranks, expected those of {}", units_.size(),
        group.size());
  check(*std::min_element(units_.begin(), units_.end()) == 0,
        "load balancing: got data-parallel rank {}, expected 0 first",
        *std::min_element(units_.begin(), units_.end()));
  const int num_units = *std::max_element(units_.begin(), units_.end()) + 1;
  for (int unit = 0; unit < num_units; ++unit) {
    check(std::find(units_.begin(), units_.end(), unit) != units_.end(),
          "load balancing: got no rank for data-parallel rank {} of {}, expected one at least", unit,
          num_units);
    const auto [first, last] = micro_batches_of_rank(num_micro_batches, num_units, unit);
    counts_.push_back(last - first);
  }
}

void LoadBalance::add(double seconds) {
  const auto unit = static_cast<size_t>(units_[static_cast<size_t>(group_.rank())]);
  seconds_.push_back(seconds / static_cast<double>(counts_[unit]));
}

bool LoadBalance::rebalance() {
  check(!seconds_.empty(), "load balancing: got no step since the last rebalance, expected one at least");
  const double mine = median(std::exchange(seconds_, {}));
  std::vector<double> of_ranks(units_.size()), of_units(counts_.size(), 0.0);
  group_.all_gather(&mine, of_ranks.data(), 1, Dtype::f64, "seconds of a micro-batch").wait();
  check_times(of_ranks);
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    double& of_unit = of_units[static_cast<size_t>(units_[rank])];
    of_unit = std::max(of_unit, of_ranks[rank]);
  }
  std::vector<int64_t> counts = athanor::share_micro_batches(num_micro_batches_, of_units);
  if (slowest(counts, of_units) >= (1.0 - options_.threshold) * slowest(counts_, of_units)) return false;
  counts_ = std::move(counts);
  return true;
}

}  // namespace athanor::parallel::data
