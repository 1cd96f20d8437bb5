// Micro-batches by measured speed, on scripted clocks.
#include "athanor/parallel/data/load_balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "athanor/base/error.h"
#include "athanor/comm/shm/thread.h"
#include "support/units.h"

namespace athanor::tests::load_balance_test {
namespace {

using ::testing::ElementsAre;

TEST(ShareMicroBatches, InProportionToSpeed) {
  EXPECT_THAT(share_micro_batches(12, {1.0, 1.0, 1.0}), ElementsAre(4, 4, 4));
  EXPECT_THAT(share_micro_batches(12, {1.0, 2.0, 1.0}), ElementsAre(5, 2, 5));
  EXPECT_THAT(share_micro_batches(12, {1.0, 3.0}), ElementsAre(9, 3));
  EXPECT_THAT(share_micro_batches(7, {1.0, 1.0, 1.0}), ElementsAre(3, 2, 2));
  EXPECT_THAT(share_micro_batches(3, {1.0, 1000.0, 1.0}), ElementsAre(1, 1, 1));
  EXPECT_THAT(share_micro_batches(1, {0.5}), ElementsAre(1));
}

TEST(ShareMicroBatches, RefusesWhatCannotBe) {
  EXPECT_THROW(share_micro_batches(2, {1.0, 1.0, 1.0}), Error);
  EXPECT_THROW(share_micro_batches(2, {}), Error);
  EXPECT_THROW(share_micro_batches(2, {1.0, 0.0}), Error);
  EXPECT_THROW(share_micro_batches(2, {1.0, -1.0}), Error);
  EXPECT_THROW(share_micro_batches(2, {std::numeric_limits<double>::quiet_NaN(), 1.0}), Error);
}

// No other partition is done earlier: held against all of them.
TEST(ShareMicroBatches, IsBest) {
  const std::vector<double> seconds = {1.0, 1.7, 0.4};
  for (int64_t micro_batches = 3; micro_batches <= 20; ++micro_batches) {
    double best = 1e9;
    for (int64_t a = 1; a <= micro_batches - 2; ++a)
      for (int64_t b = 1; a + b <= micro_batches - 1; ++b)
        best =
            std::min(best, std::max({static_cast<double>(a) * seconds[0], static_cast<double>(b) * seconds[1],
                                     static_cast<double>(micro_batches - a - b) * seconds[2]}));
    const std::vector<int64_t> counts = share_micro_batches(micro_batches, seconds);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), micro_batches);
    double got = 0.0;
    for (size_t r = 0; r < 3; ++r) got = std::max(got, static_cast<double>(counts[r]) * seconds[r]);
    EXPECT_EQ(got, best) << micro_batches;
  }
}

// Counts of every rank after each of its deals, on a clock that says what a micro-batch takes: seconds(rank, step). Ranks are of
// these units; with none each is one.
std::vector<std::vector<int64_t>> counts_over(int ranks, int64_t micro_batches, int64_t steps,
                                              const std::function<double(int, int64_t)>& seconds,
                                              const std::vector<int>& units = {}) {
  std::vector<std::vector<std::vector<int64_t>>> of_rank(static_cast<size_t>(ranks));
  const auto groups = make_thread_groups(ranks);
  run_ranks(groups, [&](Group& group) {
    const BalanceOptions options{.every = 4};
    LoadBalance balance(group, units.empty() ? every_rank_alone(group) : units, micro_batches, options);
    const auto me = static_cast<size_t>(group.rank());
    const size_t unit = units.empty() ? me : static_cast<size_t>(units[me]);
    for (int64_t step = 1; step <= steps; ++step) {
      balance.add(seconds(group.rank(), step) * static_cast<double>(balance.counts()[unit]));
      if (!balance.due(step)) continue;
      const std::vector<int64_t> before = balance.counts();
      const bool changed = balance.rebalance();
      EXPECT_EQ(changed, balance.counts() != before);
      of_rank[me].push_back(balance.counts());
    }
    EXPECT_EQ(group.traffic().total().bytes, std::ssize(of_rank[me]) * 8 * (ranks - 1));
  });
  for (const auto& counts : of_rank) EXPECT_EQ(counts, of_rank[0]) << "ranks disagree";
  return of_rank[0];
}

TEST(LoadBalance, FollowsARankThatSlowsDownAndRecovers) {
  const auto counts = counts_over(
      3, 12, 12, [](int rank, int64_t step) { return rank == 1 && step > 4 && step <= 8 ? 2.0 : 1.0; });
  EXPECT_THAT(counts, ElementsAre(ElementsAre(4, 4, 4), ElementsAre(5, 2, 5), ElementsAre(4, 4, 4)));
}

TEST(LoadBalance, OneSlowStepAndNoiseMoveNothing) {
  const auto counts = counts_over(4, 40, 16, [](int rank, int64_t step) {
    if (rank == 2 && step % 4 == 1) return 50.0;
    return 1.0 + 0.01 * static_cast<double>((step * 7 + rank * 3) % 5);
  });
  for (const auto& each : counts) EXPECT_THAT(each, ElementsAre(10, 10, 10, 10));
}

// Ranks 0 to 5 as two stages of three units: rank 4 is the second one of unit 1.
TEST(LoadBalance, AUnitIsAsFastAsItsSlowestRank) {
  const auto counts = counts_over(6, 12, 12,
                                  [](int rank, int64_t step) {
                                    if (rank == 1) return 0.1;  // waits for rank 4
                                    return rank == 4 && step > 4 && step <= 8 ? 2.0 : 1.0;
                                  },
                                  {0, 1, 2, 0, 1, 2});
  EXPECT_THAT(counts, ElementsAre(ElementsAre(4, 4, 4), ElementsAre(5, 2, 5), ElementsAre(4, 4, 4)));
}

TEST(LoadBalance, RefusesUnitsThatAreNotThoseOfTheRanks) {
  const auto groups = make_thread_groups(3);
  for (const std::vector<int>& units :
       {std::vector<int>{0, 1}, {0, 2, 2}, {1, 1, 2}, {0, -1, 1}, {0, 1, 2, 3}})
    EXPECT_THROW(LoadBalance(*groups[0], units, 8, {}), Error);
}

TEST(LoadBalance, ATimeThatIsNoneIsNamedWhateverTheOthersOfTheUnitSay) {
  for (const double seconds : {0.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_ANY_THROW(counts_over(4, 8, 4, [seconds](int rank, int64_t) { return rank == 1 ? seconds : 1.0; },
                                 {0, 0, 1, 1}));
}

TEST(LoadBalance, AnUnevenNumberStaysAsItIs) {
  const auto counts = counts_over(3, 7, 4, [](int, int64_t) { return 0.25; });
  EXPECT_THAT(counts.back(), ElementsAre(3, 2, 2));
}

}  // namespace
}  // namespace athanor::tests::load_balance_test
