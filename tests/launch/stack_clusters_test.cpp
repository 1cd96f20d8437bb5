// Ranks that stand at the same place are one cluster, whatever their innermost frame; the odd one is named where there is one.
#include "athanor/launch/diagnosis/stack_clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace athanor::tests::stack_clusters_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Frames = std::vector<std::string>;

const Frames kWaits = {"futex", "comm::wait", "a::comm::Group::all_reduce", "step", "main"};
const Frames kSpins = {"a::comm::poll", "a::comm::Group::all_reduce", "step", "main"};
// The same wait, which looks whether the other ranks live.
const Frames kLooks = {"open64",
                       "a::comm::shm::state_of",
                       "std::_Function_handler::_M_invoke",
                       "a::comm::loss_of",
                       "a::comm::look_around",
                       "a::comm::wait",
                       "a::comm::Group::all_reduce",
                       "step",
                       "main"};
const Frames kReads = {"pread", "data::read", "data::Loader::next", "batch", "step", "main"};

RankStacks rank_at(int rank, Frames frames, char state = 'S') {
  return {
      rank,
      {.process = 100 + rank,
       .threads = {{100 + rank, "athanor", state, "", std::move(frames)}, {200 + rank, "loader", 'S', ""}}}};
}

std::vector<std::vector<int>> ranks_of(const std::vector<StackCluster>& clusters) {
  std::vector<std::vector<int>> ranks;
  for (const StackCluster& cluster : clusters) ranks.push_back(cluster.ranks);
  return ranks;
}

TEST(StackClusters, TheOneThatIsElsewhereIsNamed) {
  const auto clusters = cluster_stacks(
      {rank_at(0, kWaits), rank_at(1, kReads, 'D'), rank_at(2, kSpins, 'R'), rank_at(3, kWaits)});
  EXPECT_THAT(ranks_of(clusters), ElementsAre(ElementsAre(0, 2, 3), ElementsAre(1)));
  EXPECT_EQ(odd_rank(clusters), 1);
  EXPECT_EQ(text_of(clusters, 2),
            "ranks 0, 2, 3: sleeps in futex, called by comm::wait\n"
            "rank 1: sleeps uninterruptibly in pread, called by data::read");
}

TEST(StackClusters, AWaitIsTheSameAtAnyDepth) {
  const auto clusters = cluster_stacks({rank_at(0, kWaits), rank_at(1, kReads), rank_at(2, kLooks, 'R')});
  EXPECT_THAT(ranks_of(clusters), ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
  EXPECT_EQ(odd_rank(clusters), 1);
}

// Of two calls in the same function.
TEST(StackClusters, WaitsInOtherCallsAreApart) {
  const Frames gathers = {"futex", "comm::wait", "a::comm::Group::all_gather", "step", "main"};
  EXPECT_THAT(ranks_of(cluster_stacks({rank_at(0, kWaits), rank_at(1, gathers), rank_at(2, kLooks)})),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
}

TEST(StackClusters, AStoppedRankIsApartWhereverItStands) {
  const auto clusters = cluster_stacks({rank_at(0, kWaits), rank_at(1, kWaits), rank_at(2, kWaits, 'T')});
  EXPECT_THAT(ranks_of(clusters), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_EQ(odd_rank(clusters), 2);
}

TEST(StackClusters, OfTwoRanksTheOneThatDoesNotWait) {
  EXPECT_EQ(odd_rank(cluster_stacks({rank_at(0, kReads), rank_at(1, kWaits)})), 0);
  EXPECT_EQ(odd_rank(cluster_stacks({rank_at(0, kWaits), rank_at(1, kReads)})), 1);
  EXPECT_EQ(odd_rank(cluster_stacks({rank_at(0, kWaits, 'T'), rank_at(1, kWaits)})), 0);
  EXPECT_EQ(odd_rank(cluster_stacks({rank_at(0, kReads), rank_at(1, {"x", "y", "z", "main"})})),
            std::nullopt);
}

TEST(StackClusters, NobodyIsNamedWithoutAReason) {
  EXPECT_EQ(odd_rank(cluster_stacks({rank_at(0, kWaits), rank_at(1, kSpins), rank_at(2, kWaits)})),
            std::nullopt);
  EXPECT_EQ(odd_rank(cluster_stacks(
                {rank_at(0, kWaits), rank_at(1, kSpins), rank_at(2, kReads), rank_at(3, kReads)})),
            std::nullopt);
  EXPECT_EQ(odd_rank({}), std::nullopt);
}

TEST(StackClusters, OfSeveralAloneTheOneAtWork) {
  const Frames elsewhere = {"futex", "w", "a::comm::Group::barrier", "save", "run", "main"};
  EXPECT_EQ(odd_rank(cluster_stacks(
                {rank_at(0, kWaits), rank_at(1, kWaits), rank_at(2, elsewhere), rank_at(3, kReads)})),
            3);
}

TEST(StackClusters, WithoutStacksStatesAlone) {
  const auto clusters = cluster_stacks({rank_at(0, {}), rank_at(1, {}, 'R'), rank_at(2, {}, 'T')});
  EXPECT_THAT(ranks_of(clusters), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_EQ(text_of(clusters), "ranks 0, 1: sleeps\nrank 2: is stopped");
  EXPECT_THAT(cluster_stacks({{.rank = 0, .stacks = {}}}), IsEmpty());
}

}  // namespace
}  // namespace athanor::tests::stack_clusters_test
