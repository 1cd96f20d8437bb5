// The table of groups: entries are used again, ranges never, and a rank that dies at work on it is named.
#include "athanor/comm/group_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csignal>
#include <memory>

#include "athanor/base/error.h"
#include "comm/forked.h"

namespace athanor::tests::group_directory_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GroupDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    void* shared =
        mmap(nullptr, GroupDirectory::bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    memory = {shared, [](void* address) { munmap(address, GroupDirectory::bytes()); }};
  }
  GroupDirectory directory(int rank) {
    GroupDirectory::Hooks hooks;
    hooks.death_of = [this](int other) { return other == dead ? std::string("it is dead") : std::string(); };
    hooks.format = [this](uint64_t range, int) { formatted.push_back(range); };
    hooks.fail = [this](uint64_t range, int, const std::string&) { failed.push_back(range); };
    hooks.release = [this](uint64_t range, int) { released.push_back(range); };
    return {memory.get(), rank, hooks};
  }
  std::shared_ptr<void> memory;
  int dead = -1;
  std::vector<uint64_t> formatted, failed, released;
};

TEST_F(GroupDirectoryTest, TheFirstFormatsAndTheLastReleases) {
  auto a = directory(0), b = directory(1);
  const uint64_t range = a.join({0, 1}, "x");
  EXPECT_EQ(b.join({0, 1}, "x"), range);
  EXPECT_THAT(formatted, ElementsAre(range));
  a.leave(range);
  // The next group of the name is another one, also while a member is still in the first.
  const uint64_t next = a.join({0, 1}, "x");
  EXPECT_NE(next, range);
  EXPECT_TRUE(released.empty());
  b.leave(range);
  EXPECT_THAT(released, ElementsAre(range));
  EXPECT_EQ(b.join({0, 1}, "x"), next);
  EXPECT_NE(a.join({0, 1}, "y"), range);
}

TEST_F(GroupDirectoryTest, HasRoomForAnyNumberOfGroupsButNotAtATime) {
  auto a = directory(0);
  for (uint64_t i = 0; i < 5000; ++i) {
    EXPECT_EQ(a.join({0}, "x"), i);
    a.leave(i);
  }
  for (int i = 0; i < 4096; ++i) a.join({0, 1}, std::to_string(i));
  EXPECT_EQ(outcome_of([&] {
              a.join({0, 1}, "one more");
            }),
            "Error: group 'one more': more than 4096 groups at a time");
}

TEST_F(GroupDirectoryTest, AMemberThatComesAfterTheOthersLeftFindsTheirGroup) {
  auto a = directory(0), b = directory(1);
  const uint64_t range = a.join({0, 1}, "x");
  a.leave(range);
  EXPECT_EQ(b.join({0, 1}, "x"), range);
  b.leave(range);
  EXPECT_THAT(released, ElementsAre(range));
}

TEST_F(GroupDirectoryTest, DisjointGroupsMayHaveOneName) {
  auto a = directory(0), b = directory(2);
  EXPECT_NE(a.join({0, 1}, "x"), b.join({2, 3}, "x"));
}

TEST_F(GroupDirectoryTest, OtherMembersForANameBreakAllThatAreConcerned) {
  auto a = directory(0), b = directory(3), c = directory(2);
  const uint64_t first = a.join({0, 1}, "x"), apart = b.join({3, 4}, "x");
  EXPECT_EQ(outcome_of([&] {
              c.join({1, 2}, "x");
            }),
            "Error: group 'x': rank 0 says its members are 0, 1; rank 2 says 1, 2");
  EXPECT_THAT(failed, ElementsAre(first));
  EXPECT_NE(first, apart);
}

TEST_F(GroupDirectoryTest, ARankThatDiesAtWorkOnItIsNamed) {
  TestRanks killed(1, [&](int) {
    GroupDirectory::Hooks hooks;
    hooks.death_of = [](int) { return std::string(); };
    hooks.format = [](uint64_t, int) { raise(SIGKILL); };
    GroupDirectory(memory.get(), 1, hooks).join({1, 2}, "x");
  });
  EXPECT_EQ(killed.outcome(0), "signal 9");
  dead = 1;
  auto other = directory(2);
  EXPECT_EQ(outcome_of([&] {
              other.join({1, 2}, "x");
            }),
            "PeerLost 1: rank 1 was lost: it is dead; it was making a group");
}

}  // namespace
}  // namespace athanor::tests::group_directory_test
