// What a group that breaks does for those who sleep: they look around every 25 ms anyway, so that a lost wake
// would only be slow. Here they sleep for an hour: without the wake these tests do not end.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "athanor/comm/shm/arena.h"

namespace athanor::tests::slot_arena_test {
namespace {

constexpr int64_t kHourMs = 3'600'000;

// Runs `sleep` in a thread of its own and `wake` once the kernel says that the thread sleeps.
void wake_a_sleeper(const SlotArena& arena, int watched, const std::function<void()>& sleep,
                    const std::function<void()>& wake) {
  std::atomic<pid_t> id = 0;
  std::thread sleeper([&] {
    id.store(static_cast<pid_t>(syscall(SYS_gettid)));
    sleep();
  });
  const auto sleeps = [&] {
    if (id.load() == 0 || (watched >= 0 && arena.control(watched).sleepers.load() == 0)) return false;
    std::ifstream in("/proc/self/task/" + std::to_string(id.load()) + "/stat");
    std::string line;
    std::getline(in, line);
    const size_t name_end = line.rfind(')');
    return name_end != std::string::npos && line.compare(name_end + 2, 1, "S") == 0;
  };
  while (!sleeps()) std::this_thread::yield();
  wake();
  sleeper.join();
}

class SlotArenaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const size_t bytes = (SlotArena::bytes(3, 256) + 4095) / 4096 * 4096;
    memory.reset(std::aligned_alloc(4096, bytes));
    arena.emplace(SlotArena::create(memory.get(), 3, 256));
  }
  std::unique_ptr<void, decltype(&std::free)> memory{nullptr, &std::free};
  std::optional<SlotArena> arena;
};

TEST_F(SlotArenaTest, AFailureWakesWhoSleepsOnAnyRank) {
  for (const int rank : {0, 1, 2}) {
    SetUp();
    wake_a_sleeper(
        *arena, rank, [&] { arena->sleep_while(rank, 0, kHourMs); },
        [&] {
          arena->fail({GroupFailure::Kind::aborted, 0, "enough"});
        });
    EXPECT_TRUE(arena->broken());
  }
}

TEST_F(SlotArenaTest, AFailureWakesWhoWaitsForOne) {
  wake_a_sleeper(
      *arena, -1,
      [&] {
        while (!arena->broken()) arena->sleep_until_broken(kHourMs);
      },
      [&] {
        arena->fail({GroupFailure::Kind::peer_lost, 2, "gone"});
      });
  EXPECT_EQ(arena->failure()->rank, 2);
}

TEST_F(SlotArenaTest, ProgressAndLeavingWake) {
  wake_a_sleeper(
      *arena, 1, [&] { arena->sleep_while(1, 0, kHourMs); }, [&] { arena->publish(1, 1); });
  wake_a_sleeper(
      *arena, 1, [&] { arena->sleep_while(1, 1, kHourMs); }, [&] { arena->set_presence(1, Presence::left); });
}

TEST_F(SlotArenaTest, ChunksAreClaimedOnceAndAnewInEachCall) {
  for (const uint64_t sequence : {0u, 1u, 7u}) {
    std::atomic<int64_t> claimed = 0, sum = 0;
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        while (const auto chunk = arena->claim(1, sequence, 1000)) {
          ++claimed;
          sum += *chunk;
        }
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(claimed, 1000);
    EXPECT_EQ(sum, 999 * 1000 / 2);
  }
  EXPECT_FALSE(arena->claim(2, 8, 0));
}

}  // namespace
}  // namespace athanor::tests::slot_arena_test
