#include "athanor/parallel/grain_balance.h"

#include <algorithm>
#include <cmath>

#include "athanor/base/check.h"

namespace athanor {
namespace {

double slowest(const std::vector<int64_t>& counts, const std::vector<double>& seconds_per_grain) {
  double most = 0.0;
  for (size_t r = 0; r < counts.size(); ++r)
    most = std::max(most, static_cast<double>(counts[r]) * seconds_per_grain[r]);
  return most;
}

}  // namespace

// One grain each; every further one goes to the rank that would be done with it first, of equals the lowest.
std::vector<int64_t> share_grains(int64_t num_grains, const std::vector<double>& seconds_per_grain) {
  const auto ranks = static_cast<int64_t>(seconds_per_grain.size());
  check(1 <= ranks && ranks <= num_grains, "balance: got {} grains for {} ranks, expected one each at least",
        num_grains, ranks);
  for (const double seconds : seconds_per_grain)
    check(std::isfinite(seconds) && seconds > 0.0, "balance: got {} seconds for a grain", seconds);
  std::vector<int64_t> counts(seconds_per_grain.size(), 1);
  for (int64_t left = num_grains - ranks; left > 0; --left) {
    size_t best = 0;
    const auto done_at = [&](size_t r) { return static_cast<double>(counts[r] + 1) * seconds_per_grain[r]; };
    for (size_t r = 1; r < counts.size(); ++r)
      if (done_at(r) < done_at(best)) best = r;
    ++counts[best];
  }
  return counts;
}

GrainBalance::GrainBalance(Group& group, int64_t num_grains, const BalanceOptions& options)
    : group_(group), num_grains_(num_grains), options_(options) {
  check(options.every >= 1, "balance: got a deal every {} steps, expected at least 1", options.every);
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto [first, last] = grains_of_rank(num_grains, group.size(), rank);
    counts_.push_back(last - first);
  }
}

void GrainBalance::add(double seconds) {
  seconds_.push_back(seconds / static_cast<double>(counts_[static_cast<size_t>(group_.rank())]));
}

bool GrainBalance::deal() {
  check(!seconds_.empty(), "balance: got no step since the last deal, expected one at least");
  const auto middle = seconds_.begin() + static_cast<std::ptrdiff_t>(seconds_.size() / 2);
  std::nth_element(seconds_.begin(), middle, seconds_.end());
  const double mine = *middle;
  seconds_.clear();
  std::vector<double> all(counts_.size(), 0.0);
  group_.all_gather(&mine, all.data(), 1, Dtype::f64, "seconds of a grain").wait();
  std::vector<int64_t> counts = athanor::share_grains(num_grains_, all);
  if (slowest(counts, all) >= (1.0 - options_.threshold) * slowest(counts_, all)) return false;
  counts_ = std::move(counts);
  return true;
}

}  // namespace athanor
