// Groups of some ranks: made in any order, without waiting; what goes wrong with them is named.
#include "athanor/comm/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "athanor/base/error.h"
#include "athanor/comm/null.h"
#include "athanor/comm/shm/thread.h"
#include "comm/forked.h"
#include "comm/reference.h"
#include "comm/stuck_clock.h"

namespace athanor::tests::world_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

std::vector<int> members_of(unsigned set) {
  std::vector<int> members;
  for (int rank = 0; set >> rank != 0; ++rank)
    if (set >> rank & 1) members.push_back(rank);
  return members;
}

void use_members(Group& group, const std::vector<int>& members) {
  auto data = samples<float>(group.rank(), 0, 300);
  group.all_reduce(data.data(), 300, Dtype::f32, "sum").wait();
  ASSERT_TRUE(same_bits(data, serial_sums<float>(group.size(), 0, 300))) << members_text(members);
  auto sent = samples<float>(group.rank(), 0, 10);
  std::vector<float> got(10);
  Work send = group.send(sent.data(), 10, Dtype::f32, (group.rank() + 1) % group.size(), "ring");
  const int from = (group.rank() + group.size() - 1) % group.size();
  group.recv(got.data(), 10, Dtype::f32, from, "ring").wait();
  send.wait();
  ASSERT_TRUE(same_bits(got, samples<float>(from, 0, 10)));
}

// All 31 groups of 5 ranks are alive at once; each rank makes its own in an order of its own before it uses any.
TEST(World, EverySubsetInAnyOrder) {
  const auto worlds = make_thread_worlds(5, small_slots());
  run_ranks(worlds, [](World& world) {
    std::vector<std::unique_ptr<Group>> groups(32);
    for (unsigned i = 0; i < 31; ++i) {
      const unsigned set = (i * 7 + static_cast<unsigned>(world.rank()) * 11) % 31 + 1;
      if ((set >> world.rank() & 1) == 0) continue;
      groups[set] = world.make_group(members_of(set), "set " + std::to_string(set));
    }
    for (unsigned set = 1; set < 32; ++set)
      if (groups[set]) {
        const auto members = members_of(set);
        ASSERT_EQ(groups[set]->size(), static_cast<int>(members.size()));
        ASSERT_EQ(members[static_cast<size_t>(groups[set]->rank())], world.rank());
        use_members(*groups[set], members);
      }
    use_members(world.all(), {0, 1, 2, 3, 4});
  });
}

// No rank waits for another before it makes the next one.
TEST(World, GroupsOfOneNameOneAfterTheOther) {
  const auto worlds = make_thread_worlds(3, small_slots());
  run_ranks(worlds, [](World& world) {
    for (int i = 0; i < 300; ++i) {
      if (world.rank() == 2) break;
      const auto group = world.make_group({0, 1}, "again");
      int32_t value = group->rank() == 0 ? i : -1;
      group->broadcast(&value, 1, Dtype::i32, 0, "number").wait();
      ASSERT_EQ(value, i);
    }
    world.all().barrier("end");
  });
}

TEST(World, GroupsOutliveTheirWorld) {
  auto worlds = make_thread_worlds(2, small_slots());
  std::vector<std::unique_ptr<Group>> groups(2);
  for (size_t r = 0; r < 2; ++r) groups[r] = worlds[r]->make_group({0, 1}, "pair");
  worlds.clear();
  run_ranks(groups, [](Group& group) { use_members(group, {0, 1}); });
}

TEST(World, SharedMemoryOfAGroup) {
  const auto worlds = make_thread_worlds(4, small_slots());
  run_ranks(worlds, [](World& world) {
    const auto members = world.rank() % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3};
    const auto group = world.make_group(members, world.rank() % 2 == 0 ? "even" : "odd");
    const auto memory = share_bytes(*group, 200'000);
    auto* data = static_cast<float*>(static_cast<void*>(memory.get()));
    const auto mine = samples<float>(group->rank(), 0, 50'000);
    std::copy(mine.begin(), mine.end(), data);
    group->all_reduce(data, 50'000, Dtype::f32, "sum").wait();
    ASSERT_TRUE(same_bits(std::vector<float>(data, data + 50'000), serial_sums<float>(2, 0, 50'000)));
  });
}

TEST(World, OfOneRankAndOfAPlan) {
  const auto single = make_single_world();
  use_members(*single->make_group({0}, "alone"), {0});
  use_members(single->all(), {0});
  const auto planned = make_null_world(2, 4);
  const auto group = planned->make_group({1, 2}, "pair");
  EXPECT_EQ(group->rank(), 1);
  float x[8] = {};
  group->all_gather(x, x, 4, Dtype::f32, "x").wait();
  EXPECT_EQ(group->traffic().total().bytes, 16);
}

TEST(World, RefusesListsThatMakeNoSense) {
  const auto worlds = make_thread_worlds(3, small_slots());
  World& world = *worlds[1];
  const auto refused = [&](const std::vector<int>& members) {
    return outcome_of([&] { world.make_group(members, "tp"); });
  };
  EXPECT_EQ(refused({0, 2}), "Error: group 'tp': made by rank 1, which is not one of its members 0, 2");
  EXPECT_EQ(refused({}), "Error: group 'tp': made by rank 1, which is not one of its members ");
  EXPECT_EQ(refused({1, 3}), "Error: group 'tp': member 3, expected ranks of 0 ... 2");
  EXPECT_EQ(refused({1, 0}), "Error: group 'tp': member 0 after 1, expected an ascending list");
  EXPECT_EQ(refused({1, 1}), "Error: group 'tp': member 1 after 1, expected an ascending list");
  const auto group = world.make_group({0, 1}, "tp");
  EXPECT_EQ(refused({0, 1}), "Error: group 'tp': rank 1 has it already, expected another name");
}

// Whoever comes first, the rank with the wrong list is named to all whom it concerns, and to no one else.
TEST(WorldMismatch, AWrongListIsNamedInAnyOrder) {
  for (int first = 0; first < 3; ++first) {
    const auto worlds = make_thread_worlds(4, small_slots());
    std::atomic<bool> begun = false;
    const auto begin = [&] {
      begun = true;
      begun.notify_all();
    };
    const auto texts = outcomes_of_ranks(worlds, [&](World& world) {
      const int rank = world.rank();
      if (rank == 3) return;
      if (rank != first) begun.wait(false);
      const std::shared_ptr<void> at_the_latest(nullptr, [&](void*) {
        if (rank == first) begin();
      });
      auto group = world.make_group(rank == 1 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2}, "tp");
      if (rank == first) begin();
      group->barrier("x");
    });
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_THAT(texts[static_cast<size_t>(rank)],
                  AllOf(HasSubstr("Error: group 'tp': rank "), HasSubstr("ank 1 says"), HasSubstr("0, 1"),
                        HasSubstr("0-2")))
          << "first " << first;
    EXPECT_EQ(texts[3], "");
  }
}

TEST(WorldMismatch, NamesBothNumbersOfARank) {
  const auto worlds = make_thread_worlds(4, small_slots());
  const auto texts = outcomes_of_ranks(worlds, [](World& world) {
    if (world.rank() < 2) return;
    const auto group = world.make_group({2, 3}, "last two");
    group->barrier(world.rank() == 3 ? "b" : "a");
  });
  for (size_t rank : {2, 3})
    EXPECT_EQ(texts[rank],
              "Error: group 'last two': the ranks do not make the same collective 0: rank 0 (2 of the "
              "world) called barrier(\"a\"); rank 1 (3 of the world) called barrier(\"b\")");
  // The failure of one group is not that of the others.
  EXPECT_THAT(outcomes_of_ranks(worlds, [](World& world) { use_members(world.all(), {}); }), Each(""));
}

TEST(WorldPeerLost, ARankThatLeavesTheWorldBeforeItJoins) {
  auto worlds = make_thread_worlds(3, small_slots());
  const auto texts = outcomes_of_ranks(
      worlds,
      [](World& world) {
        if (world.rank() != 2) world.make_group({0, 1, 2}, "all three")->barrier("x");
      },
      &worlds);
  for (size_t rank : {0, 1})
    EXPECT_THAT(texts[rank],
                AllOf(HasSubstr("PeerLost 2: rank 2 (2 of the world) was lost: it has left the world"),
                      HasSubstr("group 'all three', collective 0 barrier(\"x\")")));
}

TEST(WorldTimeout, AMemberThatNeverComesIsNamedWithWhatItDoes) {
  GroupOptions options = small_slots();
  options.timeout_ms = 150;
  options.late_ms = 20;
  StuckClock clock(/*ranks=*/2, /*waiting=*/1);
  options.now_ns = [&] { return clock.now_ns(); };
  std::mutex mutex;
  std::vector<std::string> reports;
  options.on_late = [&](const std::string& report) {
    const std::lock_guard lock(mutex);
    reports.push_back(report);
  };
  const auto worlds = make_thread_worlds(3, options);
  std::latch over(1);
  const auto texts = outcomes_of_ranks(worlds, [&](World& world) {
    world.all().barrier("start");
    if (world.rank() < 2) clock.stuck();
    if (world.rank() == 0) return over.wait();  // busy elsewhere
    if (world.rank() == 1) {
      const std::shared_ptr<void> counted(nullptr, [&](void*) { over.count_down(); });
      world.make_group({0, 1}, "pair")->barrier("x");
    }
  });
  EXPECT_THAT(
      texts[1],
      AllOf(HasSubstr("Timeout: group 'pair', collective 0 barrier(\"x\")"),
            HasSubstr("rank 0 (0 of the world), which has not joined yet (in the world it last called "
                      "collective 0 barrier(\"start\") and finished it)")));
  EXPECT_THAT(reports, ::testing::Not(::testing::IsEmpty()));
}

TEST(WorldAbort, BreaksEveryGroupAndLaterOnes) {
  const auto worlds = make_thread_worlds(3, small_slots());
  const auto texts = outcomes_of_ranks(worlds, [](World& world) {
    if (world.rank() == 2) return world.abort("disk full");
    const auto group = world.make_group({0, 1}, "pair");
    float x = 0;
    if (world.rank() == 0) {
      group->recv(&x, 1, Dtype::f32, 1, "never sent").wait();
    } else {
      world.make_group({1, 2}, "other")->barrier("x");
    }
  });
  for (size_t rank : {0, 1})
    EXPECT_THAT(texts[rank],
                AllOf(HasSubstr("Recoverable: rank 2 aborted group 'world'"), HasSubstr("disk full")));
  EXPECT_THROW(worlds[0]->make_group({0, 1}, "later"), Recoverable);
}

TEST(World, MembersText) {
  EXPECT_EQ(members_text({}), "");
  EXPECT_EQ(members_text({3}), "3");
  EXPECT_EQ(members_text({0, 1, 3, 5, 6, 7, 9}), "0, 1, 3, 5-7, 9");
}

}  // namespace
}  // namespace athanor::tests::world_test
