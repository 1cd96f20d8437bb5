// Every grain has one rank of each part, every leaf of the tree one rank, and a rank's leaves are neighbours.
#include "athanor/parallel/grain_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/comm/thread.h"

namespace athanor {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(GrainShares, AsTheHeaderSays) {
  const auto groups = make_thread_groups(4);
  GrainShares shares(*groups[3], 2);
  EXPECT_FALSE(shares.are_set());
  EXPECT_THAT(shares.own_grains(8), ElementsAre(4, 5, 6, 7));
  shares.set({5, 3});
  EXPECT_TRUE(shares.are_set());
  EXPECT_THAT(shares.grains(8, 0), Pair(0, 5));
  EXPECT_THAT(shares.grains(8, 2), Pair(5, 8));
  EXPECT_THAT(shares.own_grains(8), ElementsAre(5, 6, 7));
  EXPECT_THAT(shares.own_leaves(8), Pair(13, 16));
  EXPECT_EQ(shares.own_leaf(5, 8), 13);
  EXPECT_EQ(shares.num_leaves(8), 16);
}

TEST(GrainShares, EveryLeafHasOneRank) {
  for (const int parts : {1, 2, 3})
    for (const int sharing : {1, 2, 5})
      for (const int64_t grains : {5, 7, 8}) {
        const auto groups = make_thread_groups(parts * sharing);
        std::vector<int> times(static_cast<size_t>(parts * grains));
        for (const auto& group : groups) {
          const GrainShares shares(*group, parts);
          const auto [first, last] = shares.own_leaves(grains);
          for (int64_t leaf = first; leaf < last; ++leaf) ++times[static_cast<size_t>(leaf)];
          const std::vector<int64_t> own = shares.own_grains(grains);
          ASSERT_EQ(std::ssize(own), last - first);
          for (size_t i = 0; i < own.size(); ++i)
            EXPECT_EQ(shares.own_leaf(own[i], grains), first + static_cast<int64_t>(i));
        }
        EXPECT_THAT(times, ::testing::Each(1)) << parts << " parts, " << sharing << " sharing " << grains;
      }
}

TEST(GrainShares, RefusesCountsOfOtherRanksOrGrains) {
  const auto groups = make_thread_groups(4);
  GrainShares shares(*groups[0], 2);
  shares.set({5, 3});
  EXPECT_THROW(shares.own_leaves(9), Error);
  shares.set({4, 2, 1, 1});
  EXPECT_THROW(shares.own_grains(8), Error);
}

}  // namespace
}  // namespace athanor
