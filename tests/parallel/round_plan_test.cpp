// Rounds of grains added to partial sums: whatever the number of ranks, the sums of one tree.
#include "athanor/parallel/round_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "athanor/base/error.h"

namespace athanor {
namespace {

// Of numbers whose sum in another order has other bits.
double grain_value(int64_t grain) {
  return std::sin(static_cast<double>(grain + 1)) * (grain % 3 == 0 ? 1e9 : 1.0);
}

double& at(const RoundPlan::Place& place, std::vector<double>& rows, std::vector<double>& buffers) {
  return (place.is_row ? rows : buffers).at(static_cast<size_t>(place.index));
}

TEST(RoundPlan, GivesTheBitsOfTheTree) {
  for (int64_t grains = 1; grains <= 40; ++grains) {
    std::vector<double> all;
    for (int64_t g = 0; g < grains; ++g) all.push_back(grain_value(g));
    for (int ranks = 1; ranks <= 9; ++ranks) {
      RoundPlanner planner(grains);
      std::vector<double> buffers(16, std::nan(""));  // nothing is read before it was written
      int64_t done = 0, rounds = 0;
      while (!planner.complete()) {
        const auto count = static_cast<int>(std::min<int64_t>(ranks, grains - done));
        std::vector<double> rows(all.begin() + done, all.begin() + done + count);
        for (const RoundPlan::Add& add : planner.next(count).adds) {
          double& into = at(add.into, rows, buffers);
          into = (add.copy ? 0.0 : into) + at(add.from, rows, buffers);
        }
        done += count;
        ++rounds;
      }
      EXPECT_EQ(buffers[0], tree_sum(all)) << grains << " grains on " << ranks << " ranks";
      const auto log2_of = [](int64_t count) { return std::ceil(std::log2(static_cast<double>(count))); };
      const bool is_power = (ranks & (ranks - 1)) == 0;  // then a full round is a node
      EXPECT_LE(planner.num_buffers(), std::max(1.0, is_power ? log2_of(rounds) + 1 : log2_of(grains)))
          << grains << " grains on " << ranks << " ranks";
    }
  }
}

TEST(RoundPlan, RefusesGrainsBeyondTheLast) {
  RoundPlanner planner(3);
  planner.next(2);
  EXPECT_THROW(planner.next(2), Error);
  EXPECT_THROW(planner.next(0), Error);
  EXPECT_FALSE(planner.complete());
}

}  // namespace
}  // namespace athanor
