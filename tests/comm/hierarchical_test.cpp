// Groups of two levels, made of thread groups: what they compute, what crosses the slow link, how they fail.
#include "athanor/comm/hierarchical/hierarchical.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "athanor/base/error.h"
#include "athanor/comm/hierarchical/hierarchical_world.h"
#include "athanor/comm/shm/thread.h"
#include "comm/every_call.h"
#include "comm/forked.h"
#include "comm/reference.h"

namespace athanor::tests::hierarchical_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Shapes = std::vector<std::pair<int, int>>;  // hosts, ranks of each

GroupOptions named(const std::string& name) {
  GroupOptions options;
  options.name = name;
  options.timeout_ms = 600'000;
  options.slot_bytes = 8192;
  return options;
}

// `hosts` hosts of n ranks.
std::vector<std::unique_ptr<Group>> make_levels(int hosts, int n, bool direct = true) {
  std::vector<std::vector<std::unique_ptr<Group>>> inner, outer;
  for (int h = 0; h < hosts; ++h) inner.push_back(make_thread_groups(n, named("host" + std::to_string(h))));
  for (int i = 0; i < n; ++i) outer.push_back(make_thread_groups(hosts, named("across" + std::to_string(i))));
  auto all = make_thread_groups(hosts * n, named("direct"));
  std::vector<std::unique_ptr<Group>> groups;
  for (size_t h = 0; h < static_cast<size_t>(hosts); ++h)
    for (size_t i = 0; i < static_cast<size_t>(n); ++i)
      groups.push_back(std::make_unique<HierarchicalGroup>(
          std::move(inner[h][i]), std::move(outer[i][h]),
          direct ? std::move(all[h * static_cast<size_t>(n) + i]) : nullptr, named("world")));
  return groups;
}

TEST(Hierarchical, EveryCallAgainstTheSumsOfSums) {
  for (const auto& [hosts, n] : Shapes{{2, 2}, {3, 2}, {2, 3}, {1, 3}, {3, 1}, {1, 1}}) {
    const auto groups = make_levels(hosts, n);
    const int inner = n;
    run_ranks(groups, [inner](Group& group) { EXPECT_EQ(try_every_call(group, inner), ""); });
  }
}

// 2 (H-1)/H S per host and direction, whatever n divides: exactly.
TEST(Hierarchical, WhatCrossesTheSlowLink) {
  for (const auto& [hosts, n] : Shapes{{2, 2}, {3, 2}, {2, 4}, {4, 2}})
    for (const int64_t per_host : {1, 7, 64, 1001}) {
      const int64_t count = per_host * hosts;  // so that H divides S
      const auto groups = make_levels(hosts, n);
      std::vector<std::atomic<int64_t>> crossed(static_cast<size_t>(hosts));
      run_ranks(groups, [&](Group& group) {
        std::vector<float> data(static_cast<size_t>(count), 1.0f);
        group.all_reduce(data.data(), count, Dtype::f32, "grads").wait();
        EXPECT_EQ(data[0], static_cast<float>(group.size()));
        const auto& levels = dynamic_cast<HierarchicalGroup&>(group);
        crossed[static_cast<size_t>(levels.outer().rank())] += levels.outer().traffic().total().bytes;
      });
      int64_t sum = 0;
      for (const auto& bytes : crossed) sum += bytes;
      EXPECT_EQ(sum, 2 * (hosts - 1) * count * 4) << hosts << " hosts of " << n << ", " << count;
      if (count / n % hosts == 0 && count % n == 0) {
        for (const auto& bytes : crossed) EXPECT_EQ(bytes, 2 * (hosts - 1) * count * 4 / hosts);
      }
    }
}

TEST(Hierarchical, OfTwoLevelsOnceMore) {
  // Racks of two hosts of two ranks: the inner group is itself of two levels.
  std::vector<std::vector<std::unique_ptr<Group>>> racks;
  for (int rack = 0; rack < 2; ++rack) racks.push_back(make_levels(2, 2));
  std::vector<std::vector<std::unique_ptr<Group>>> across;
  for (int i = 0; i < 4; ++i) across.push_back(make_thread_groups(2, named("racks")));
  std::vector<std::unique_ptr<Group>> groups;
  for (size_t rack = 0; rack < 2; ++rack)
    for (size_t i = 0; i < 4; ++i)
      groups.push_back(std::make_unique<HierarchicalGroup>(
          std::move(racks[rack][i]), std::move(across[i][rack]), nullptr, named("all")));
  run_ranks(groups, [](Group& group) {
    std::vector<TreeNode> nodes;
    auto mine = node_sum({group.rank(), group.rank() + 1}, 8, 100);
    std::vector<float> sum(100);
    group.all_reduce_tree({{group.rank(), group.rank() + 1, mine.data()}}, 8, sum.data(), 100, "x").wait();
    EXPECT_TRUE(same_bits(sum, node_sum({0, 8}, 8, 100)));
  });
}

TEST(Hierarchical, FailuresReachAllRanksOfAllHosts) {
  auto groups = make_levels(2, 2);
  auto texts = outcomes_of_ranks(groups, [](Group& group) {
    group.barrier("start");
    if (group.rank() == 3) group.abort("disk full");
    group.barrier("x");
  });
  for (const auto& text : texts) EXPECT_THAT(text, HasSubstr("rank 3 aborted group 'world': disk full"));

  groups = make_levels(2, 2);
  texts = outcomes_of_ranks(groups, [](Group& group) {
    std::vector<float> data(8);
    const int64_t count = group.rank() == 2 ? 6 : 8;
    group.all_reduce(data.data(), count, Dtype::f32, "grads").wait();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("(f32[3], \"grads\")"), HasSubstr("(f32[4], \"grads\")")));

  groups = make_levels(2, 3);
  texts = outcomes_of_ranks(
      groups,
      [](Group& group) {
        group.barrier("start");
        if (group.rank() != 4) group.barrier("x");
      },
      &groups);
  EXPECT_EQ(texts[4], "");
  for (const size_t rank : {0, 2}) EXPECT_THAT(texts[rank], HasSubstr("rank 4 was lost"));
  for (const size_t rank : {1, 3, 5}) EXPECT_THAT(texts[rank], HasSubstr("PeerLost 4: "));
}

TEST(HierarchicalWorld, TakesTheGroupThatFits) {
  std::vector<std::vector<std::unique_ptr<World>>> hosts;
  for (int h = 0; h < 2; ++h) hosts.push_back(make_thread_worlds(3, named("host")));
  auto everybody = make_thread_worlds(6, named("world"));
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 6; ++r)
    threads.emplace_back([&, r] {
      const auto world = make_hierarchical_world(std::move(hosts[r / 3][r % 3]), std::move(everybody[r]));
      const auto levels = [](const Group& group) {
        return dynamic_cast<const HierarchicalGroup*>(&group) != nullptr;
      };
      EXPECT_TRUE(levels(world->all()));
      EXPECT_EQ(try_every_call(world->all(), 3), "");
      const bool first = r < 3;
      const auto host = world->make_group(first ? std::vector{0, 1, 2} : std::vector{3, 4, 5}, "host");
      EXPECT_FALSE(levels(*host));
      EXPECT_EQ(try_every_call(*host), "");
      if (r % 3 != 1) {  // two of each host
        const auto even = world->make_group({0, 2, 3, 5}, "even");
        EXPECT_TRUE(levels(*even));
        EXPECT_EQ(try_every_call(*even, 2), "");
        const auto column = world->make_group(r % 3 == 0 ? std::vector{0, 3} : std::vector{2, 5}, "column");
        EXPECT_FALSE(levels(*column));
        EXPECT_EQ(try_every_call(*column), "");
      }
      if (r != 4) {
        const auto uneven = world->make_group({0, 1, 2, 3, 5}, "uneven");
        EXPECT_FALSE(levels(*uneven));
        EXPECT_EQ(try_every_call(*uneven), "");
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST(HierarchicalWorld, RefusesTwoGenerations) {
  GroupOptions later = named("host");
  later.generation = 1;
  EXPECT_EQ(outcome_of([&] {
              make_hierarchical_world(std::move(make_thread_worlds(1, later)[0]),
                                      std::move(make_thread_worlds(1, named("world"))[0]));
            }),
            "Error: world: rank 0 is of generation 1 on its host, 0 among all");
}

TEST(Hierarchical, MessagesReachWhomTheyCan) {
  const auto groups = make_levels(2, 2, /*direct=*/false);
  run_ranks(groups, [](Group& group) {
    int64_t mine = group.rank(), theirs = -1;
    const int there = (group.rank() + 2) % 4;  // my number on the other host
    Work sent = group.send(&mine, 1, Dtype::i64, there, "x");
    group.recv(&theirs, 1, Dtype::i64, there, "x").wait();
    sent.wait();
    EXPECT_EQ(theirs, there);
    EXPECT_THROW(group.send(&mine, 1, Dtype::i64, 3 - group.rank(), "x").wait(), Error);
    group.barrier("end");
  });
}

}  // namespace
}  // namespace athanor::tests::hierarchical_test
