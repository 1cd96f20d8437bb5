// The two grids of a layout: every one of up to 24 ranks against what they are for.
#include "athanor/layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "layout/small_model.h"

namespace athanor::tests::layout_test {
namespace {

using ::testing::ElementsAre;

const AxisNames kEp = {axis::ep, axis::ep_tp};
const AxisNames kSameExperts = {axis::expert_replicate, axis::expert_shard, axis::expert_tp};

// Every layout of that many ranks in one replica group, its shards as ZeRO has them where `shard` divides dp.
std::vector<Layout> layouts_of(int ranks) {
  std::vector<Layout> layouts;
  for (int dp = 1; dp <= ranks; ++dp)
    for (int shard = 1; shard <= dp; ++shard)
      for (int cp = 1; dp * cp <= ranks; ++cp)
        for (int tp = 1; dp * cp * tp <= ranks; ++tp)
          for (int ep = 1; ep <= dp * cp * tp; ++ep)
            if (dp % shard == 0 && dp * cp * tp == ranks && ranks % ep == 0 &&
                (shard * cp * tp <= ep || shard * cp * tp % ep == 0))
              layouts.push_back(
                  {.replicate = dp / shard, .shard = shard, .cp = cp, .tp = tp, .ep = ep, .zero_stage = 1});
  return layouts;
}

int data_rank(const Layout& layout, int rank) {  // of (dp, cp)
  return rank / layout.tp;
}

TEST(Layout, BothGridsHaveAllRanksOnce) {
  for (int ranks = 1; ranks <= 24; ++ranks)
    for (const Layout& layout : layouts_of(ranks)) {
      const MeshShape dense = dense_mesh(layout), experts = expert_mesh(layout);
      ASSERT_EQ(dense.num_ranks(), ranks) << layout.text();
      ASSERT_EQ(experts.num_ranks(), ranks) << layout.text();
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(std::ssize(experts.peers(rank, kEp)), layout.ep);
        EXPECT_EQ(std::ssize(experts.peers(rank, kSameExperts)), ranks / layout.ep);
      }
    }
}

// The ranks of a tp group share the tokens of layers of experts: their ep groups must bring together those of the same
// micro-batches.
TEST(Layout, RanksOfATpGroupMeetTheSameTokensInTheirEpGroups) {
  for (int ranks = 1; ranks <= 24; ++ranks)
    for (const Layout& layout : layouts_of(ranks)) {
      const MeshShape experts = expert_mesh(layout);
      const auto tokens_met = [&](int rank) {
        std::multiset<int> tokens;
        for (const int peer : experts.peers(rank, kEp)) tokens.insert(data_rank(layout, peer));
        return tokens;
      };
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(tokens_met(rank), tokens_met(rank / layout.tp * layout.tp))
            << layout.text() << ", rank " << rank;
    }
}

// Where there are such parts: neighbours among the ranks with the same experts, and all ranks of their ep groups,
// compute the same micro-batches.
TEST(Layout, ExpertPartsAreOfTheSameMicroBatches) {
  for (int ranks = 1; ranks <= 24; ++ranks)
    for (const Layout& layout : layouts_of(ranks)) {
      const MeshShape experts = expert_mesh(layout);
      const auto dp_of = [&](int rank) { return data_rank(layout, rank) / layout.cp; };
      const int parts = layout.expert_parts();
      bool crosses = false;
      for (int rank = 0; rank < ranks; ++rank)
        for (const int peer : experts.peers(rank, kEp)) crosses = crosses || dp_of(peer) != dp_of(rank);
      EXPECT_EQ(parts == 0, crosses) << layout.text();
      for (int rank = 0; rank < ranks && parts > 0; ++rank) {
        const std::vector<int> same = experts.peers(rank, kSameExperts);
        const auto place = std::find(same.begin(), same.end(), rank) - same.begin();
        EXPECT_EQ(place / parts, dp_of(rank)) << layout.text() << ", rank " << rank;
      }
    }
}

// A shard of expert weights lies within a shard of the others, and has ranks of each of its experts' copies.
TEST(Layout, ShardsOfExpertsLieWithinShards) {
  for (int ranks = 1; ranks <= 24; ++ranks)
    for (const Layout& layout : layouts_of(ranks)) {
      const MeshShape dense = dense_mesh(layout), experts = expert_mesh(layout);
      if (layout.shard * layout.cp * layout.tp < layout.ep) continue;  // an expert once in several shards
      for (int rank = 0; rank < ranks; ++rank)
        for (const int peer : experts.peers(rank, {axis::expert_shard, axis::expert_tp}))
          EXPECT_EQ(dense.coordinate(peer, axis::replicate), dense.coordinate(rank, axis::replicate))
              << layout.text() << ", ranks " << rank << " and " << peer;
    }
}

TEST(Layout, OfAConfig) {
  Config config = asked([](auto& p) { p.pp = 2, p.zero_stage = 2, p.shard_degree = 2, p.reduce = "fast"; });
  config.local_sgd = {.sync_interval = 5, .group_size = 4};
  const Layout layout = make_layout(config, {.world_size = 16});
  EXPECT_EQ(layout.local_sgd, 2);
  EXPECT_EQ(layout.replicate, 2);
  EXPECT_EQ(layout.shard, 2);
  EXPECT_EQ(layout.dp(), 8);
  EXPECT_TRUE(layout.is_hybrid());
  EXPECT_THAT(layout.rank_of_stage, ElementsAre(0, 1));
  EXPECT_THAT(layout.stage_layers, ElementsAre(2, 2));
  EXPECT_EQ(layout.dense.sum, (AxisNames{axis::replicate, axis::shard, axis::cp}));
  EXPECT_EQ(layout.dense.shard, (AxisNames{axis::shard, axis::cp}));
  EXPECT_EQ(layout.dense.average, (AxisNames{axis::local_sgd}));
  EXPECT_EQ(layout.dense.average_interval, 5);
  EXPECT_FALSE(layout.experts.exists);
  EXPECT_EQ(layout, make_layout(config, {.world_size = 16, .ranks_of_host = 8})) << "it was a number";
  EXPECT_THAT(dense_mesh(layout).peers(5, {axis::local_sgd}), ElementsAre(1, 5));
  EXPECT_THAT(dense_mesh(layout).peers(5, {axis::replicate}), ElementsAre(5, 7));
  EXPECT_THAT(dense_mesh(layout).peers(5, {axis::shard}), ElementsAre(4, 5));
  EXPECT_THAT(dense_mesh(layout).peers(5, {axis::pp}), ElementsAre(5, 13));
}

TEST(Layout, WithoutZeroAllOfDpAreReplicas) {
  const Layout layout = make_layout(asked([](auto&) {}), {.world_size = 4});
  EXPECT_EQ(layout.replicate, 4);
  EXPECT_EQ(layout.shard, 1);
  EXPECT_TRUE(layout.dense.shard.empty());
  EXPECT_FALSE(layout.is_hybrid());
  EXPECT_EQ(layout.text(), "dp 4 tp 1 zero 0 reduce fast recompute none");
}

TEST(Layout, BalanceUnitsAreDpRanks) {
  Config config = asked([](auto& p) { p.tp = 2, p.load_balance = "speed", p.reduce = "tree"; });
  EXPECT_THAT(balance_units(make_layout(config, {.world_size = 6}), 6), ElementsAre(0, 0, 1, 1, 2, 2));
}

}  // namespace
}  // namespace athanor::tests::layout_test
