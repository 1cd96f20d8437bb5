// Every micro-batch has one rank of each part, every leaf of the tree one rank, and a rank's leaves are neighbours.
#include "athanor/parallel/data/micro_batch_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/comm/shm/thread.h"

namespace athanor::tests::micro_batch_shares_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(MicroBatchShares, AsTheHeaderSays) {
  const auto groups = make_thread_groups(4);
  MicroBatchShares shares(*groups[3], 2);
  EXPECT_FALSE(shares.are_set());
  EXPECT_THAT(shares.own_micro_batches(8), ElementsAre(4, 5, 6, 7));
  shares.set({5, 3});
  EXPECT_TRUE(shares.are_set());
  EXPECT_THAT(shares.micro_batches(8, 0), Pair(0, 5));
  EXPECT_THAT(shares.micro_batches(8, 2), Pair(5, 8));
  EXPECT_THAT(shares.own_micro_batches(8), ElementsAre(5, 6, 7));
  EXPECT_THAT(shares.own_leaves(8), Pair(13, 16));
  EXPECT_EQ(shares.num_leaves(8), 16);
}

TEST(MicroBatchShares, EveryLeafHasOneRank) {
  for (const int parts : {1, 2, 3})
    for (const int sharing : {1, 2, 5})
      for (const int64_t micro_batches : {5, 7, 8}) {
        const auto groups = make_thread_groups(parts * sharing);
        std::vector<int> times(static_cast<size_t>(parts * micro_batches));
        for (const auto& group : groups) {
          const MicroBatchShares shares(*group, parts);
          const auto [first, last] = shares.own_leaves(micro_batches);
          for (int64_t leaf = first; leaf < last; ++leaf) ++times[static_cast<size_t>(leaf)];
          const std::vector<int64_t> own = shares.own_micro_batches(micro_batches);
          ASSERT_EQ(std::ssize(own), last - first);
          EXPECT_EQ(first, group->rank() % parts * micro_batches + own.front());
          EXPECT_EQ(own.back() - own.front() + 1, std::ssize(own));
        }
        EXPECT_THAT(times, ::testing::Each(1))
            << parts << " parts, " << sharing << " sharing " << micro_batches;
      }
}

TEST(MicroBatchShares, RefusesCountsOfOtherRanksOrMicroBatches) {
  const auto groups = make_thread_groups(4);
  MicroBatchShares shares(*groups[0], 2);
  shares.set({5, 3});
  EXPECT_THROW(shares.own_leaves(9), Error);
  shares.set({4, 2, 1, 1});
  EXPECT_THROW(shares.own_micro_batches(8), Error);
}

}  // namespace
}  // namespace athanor::tests::micro_batch_shares_test
