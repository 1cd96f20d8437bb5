// Shared work: who is waited for, and who is not. Who leaves and ends while it is being looked at.
#include "athanor/comm/shm/link.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include "athanor/base/error.h"

namespace athanor::tests::slot_link_test {
namespace {

class SlotLinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    memory.reset(std::aligned_alloc(4096, (SlotArena::bytes(2, 256) + 4095) / 4096 * 4096));
    const SlotArena arena = SlotArena::create(memory.get(), 2, 256);
    GroupOptions options;
    options.timeout_ms = 600'000;
    for (int rank = 0; rank < 2; ++rank) {
      arena.set_presence(rank, Presence::joined);
      links[rank] = std::make_unique<SlotLink>(arena, rank, options, [this](int) { return state(); });
    }
  }
  // Both make the next call.
  void announce() {
    const Call call{Collective::barrier, Dtype::u8, -1, 0, 0, "work", 0};
    std::thread other([&] {
      links[1]->begin(call);
      links[1]->announce();
    });
    links[0]->begin(call);
    links[0]->announce();
    other.join();
  }
  std::function<std::string()> state = [] { return std::string(); };  // of the other's process
  std::unique_ptr<void, decltype(&std::free)> memory{nullptr, &std::free};
  std::unique_ptr<SlotLink> links[2];
};

TEST_F(SlotLinkTest, AClaimedChunkIsWaitedFor) {
  for (int call = 0; call < 3; ++call) {
    announce();
    links[0]->join_work();
    ASSERT_EQ(links[0]->claim(0, 1), 0);
    std::atomic<bool> done = false;
    std::thread other([&] {
      links[1]->join_work();
      EXPECT_FALSE(links[1]->claim(0, 1));
      links[1]->finish_work();
      done = true;
    });
    // It goes to sleep until rank 0 has done its chunk.
    while (!done && links[0]->arena().control(0).sleepers.load() == 0) std::this_thread::yield();
    EXPECT_FALSE(done);
    links[0]->finish_work();
    other.join();
    for (const auto& link : links) link->end();
  }
}

TEST_F(SlotLinkTest, ARankThatHasNotComeIsNotWaitedFor) {
  for (int call = 0; call < 3; ++call) {
    announce();
    links[1]->join_work();
    EXPECT_EQ(links[1]->claim(1, 1), 0);
    EXPECT_EQ(links[1]->claim(0, 1), 0);  // the work of the one that is late
    links[1]->finish_work();
    links[0]->join_work();
    EXPECT_FALSE(links[0]->claim(0, 1));
    EXPECT_FALSE(links[0]->claim(1, 1));
    links[0]->finish_work();
    for (const auto& link : links) link->end();
  }
}

// A process that has left its group may end at any moment after: that is no death.
TEST_F(SlotLinkTest, WhoLeavesAndEndsWhileItIsLookedAtHasLeft) {
  state = [this] {
    links[1]->arena().set_presence(1, Presence::left);
    return std::string("its process has died");
  };
  EXPECT_EQ(links[0]->loss_of(1), "it has left the group");
  links[0]->arena().set_presence(1, Presence::joined);
  links[0]->look_for_deaths();
  EXPECT_FALSE(links[0]->failure());
}

TEST_F(SlotLinkTest, WhoEndsWithoutLeavingHasDied) {
  state = [] { return std::string("its process has died"); };
  EXPECT_EQ(links[0]->loss_of(1), "its process has died");
  EXPECT_THROW(links[0]->look_for_deaths(), PeerLost);
}

}  // namespace
}  // namespace athanor::tests::slot_link_test
