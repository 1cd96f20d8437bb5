// The groups of a layout: who is in which, by the numbers of their ranks.
#include "athanor/layout/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/comm/null.h"
#include "athanor/comm/shm/thread.h"
#include "layout/small_model.h"

namespace athanor::tests::groups_test {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> members_of(Group& group, int rank) {
  std::vector<int32_t> members(static_cast<size_t>(group.size()));
  const int32_t me = rank;
  group.all_gather(&me, members.data(), 1, Dtype::i32, "who").wait();
  return members;
}

// Every rank makes the same collectives; those of `rank` are looked at.
void expect_members(const Config& config, int ranks, int rank, Group* Groups::*which,
                    const std::vector<int32_t>& expected) {
  const Layout layout = make_layout(config, {.world_size = ranks});
  run_ranks(make_thread_worlds(ranks), [&](World& world) {
    const Groups groups(layout, world);
    const auto members = members_of(*(groups.*which), world.rank());
    if (world.rank() == rank) {
      EXPECT_EQ(members, expected) << layout.text();
    }
  });
}

TEST(Groups, OneRankHasGroupsOfOne) {
  const auto world = make_single_world();
  const Groups groups(make_layout(asked([](auto&) {}), {.world_size = 1}), *world);
  for (const Group* group :
       {groups.all, groups.role, groups.exchange, groups.tensor, groups.context, groups.pipeline,
        groups.pipeline_ends, groups.data, groups.losses, groups.balance, groups.experts, groups.dense.sum,
        groups.dense.shard, groups.dense.replicate, groups.dense.average, groups.expert.sum,
        groups.expert.shard})
    EXPECT_EQ(group->size(), 1);
}

TEST(Groups, AlongTheAxes) {
  const Config config = asked([](auto& p) { p.pp = 2, p.tp = 2; }, "gpt2");
  expect_members(config, 8, 5, &Groups::tensor, {4, 5});
  expect_members(config, 8, 5, &Groups::data, {5, 7});
  expect_members(config, 8, 5, &Groups::pipeline, {1, 5});
  expect_members(config, 8, 5, &Groups::losses, {1, 3, 5, 7});
  expect_members(config, 8, 5, &Groups::pipeline_ends, {1, 5});  // tied embeddings
  Config llama = asked([](auto& p) { p.pp = 2, p.tp = 2; });
  expect_members(llama, 8, 5, &Groups::pipeline_ends, {5});
}

TEST(Groups, WhereAllRanksShareDataItIsTheWorldsOwnGroup) {
  const auto world = make_null_world(1, 4);
  const Groups groups(make_layout(asked([](auto& p) { p.cp = 2; }), {.world_size = 4}), *world);
  EXPECT_EQ(groups.data, &world->all());
  EXPECT_EQ(groups.dense.sum, &world->all());
}

TEST(Groups, OfParameters) {
  Config config = asked([](auto& p) { p.zero_stage = 1, p.shard_degree = 2; });
  config.local_sgd = {.sync_interval = 5, .group_size = 4};
  run_ranks(make_thread_worlds(8), [&](World& world) {
    const Groups groups(make_layout(config, {.world_size = 8}), world);
    const auto sum = members_of(*groups.dense.sum, world.rank());
    const auto shard = members_of(*groups.dense.shard, world.rank());
    const auto replicate = members_of(*groups.dense.replicate, world.rank());
    const auto average = members_of(*groups.dense.average, world.rank());
    if (world.rank() != 5) return;
    EXPECT_THAT(sum, ElementsAre(4, 5, 6, 7));
    EXPECT_THAT(shard, ElementsAre(4, 5));
    EXPECT_THAT(replicate, ElementsAre(5, 7));
    EXPECT_THAT(average, ElementsAre(1, 5));
  });
}

TEST(Groups, OfExpertsAreOtherGroupsOfTheSameRanks) {
  const Config config = asked([](auto& p) { p.ep = 2, p.zero_stage = 1; }, "moe");
  run_ranks(make_thread_worlds(4), [&](World& world) {
    const Groups groups(make_layout(config, {.world_size = 4}), world);
    const auto experts = members_of(*groups.experts, world.rank());
    const auto sum = members_of(*groups.expert.sum, world.rank());
    if (world.rank() != 2) return;
    EXPECT_THAT(experts, ElementsAre(2, 3));
    EXPECT_THAT(sum, ElementsAre(0, 2));
    EXPECT_EQ(groups.expert.shard, groups.expert.sum);
  });
}

TEST(Groups, ServersAreApart) {
  Config config = asked([](auto&) {});
  config.parameter_server.servers = 1;
  const Layout layout = make_layout(config, {.world_size = 4});
  EXPECT_FALSE(layout.is_server(2));
  EXPECT_TRUE(layout.is_server(3));
  expect_members(config, 4, 1, &Groups::role, {0, 1, 2});
  expect_members(config, 4, 3, &Groups::role, {3});
  expect_members(config, 4, 1, &Groups::data, {0, 1, 2});
  expect_members(config, 4, 3, &Groups::exchange, {0, 1, 2, 3});
}

}  // namespace
}  // namespace athanor::tests::groups_test
