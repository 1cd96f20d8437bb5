// Groups of some processes: they find each other in the segment, and their deaths are named.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>

#include "athanor/base/error.h"
#include "athanor/comm/shm/shm.h"
#include "comm/forked.h"
#include "comm/reference.h"

namespace athanor::tests::shm_world_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

void use_everything(Group& group) {
  const int n = group.size(), me = group.rank();
  for (int64_t count : {1, 1000, 200'003}) {
    auto data = samples<float>(me, 0, count);
    group.all_reduce(data.data(), count, Dtype::f32, "sum").wait();
    EXPECT_TRUE(same_bits(data, serial_sums<float>(n, 0, count)));
    const auto sent = samples<float>(me, 0, count);
    std::vector<float> got(sent.size());
    Work send = group.send(sent.data(), count, Dtype::f32, (me + 1) % n, "ring");
    group.recv(got.data(), count, Dtype::f32, (me + n - 1) % n, "ring").wait();
    send.wait();
    EXPECT_TRUE(same_bits(got, samples<float>((me + n - 1) % n, 0, count)));
    std::vector<int64_t> sends(static_cast<size_t>(n), count), recvs = sends;
    sends[0] = recvs[0] = 0;  // nobody sends to rank 0
    if (me == 0) std::fill(recvs.begin(), recvs.end(), 0);
    if (me != 0) recvs[0] = count;
    const auto rows = samples<float>(me, 0, (n - 1) * count);
    std::vector<float> out(static_cast<size_t>(me == 0 ? 0 : n * count));
    group.all_to_all_v(rows.data(), sends, out.data(), recvs, Dtype::f32, "v").wait();
    for (int r = 0; me != 0 && r < n; ++r)
      EXPECT_TRUE(same_bits(std::vector<float>(out.begin() + r * count, out.begin() + (r + 1) * count),
                            samples<float>(r, (me - 1) * count, count)));
  }
}

TEST(ShmWorld, GroupsInAnyOrder) {
  const ShmSegment segment(4);
  TestRanks ranks(4, [&](int rank) {
    const auto world = open_shm_world(segment.fd(), rank, 4, patient());
    const bool even = rank % 2 == 0, low = rank < 2;
    const auto across = [&] {
      return world->make_group(even ? std::vector{0, 2} : std::vector{1, 3}, even ? "e" : "o");
    };
    const auto near = [&] {
      return world->make_group(low ? std::vector{0, 1} : std::vector{2, 3}, low ? "l" : "h");
    };
    auto first = rank == 1 || rank == 2 ? near() : across();
    auto second = rank == 1 || rank == 2 ? across() : near();
    if (rank == 1 || rank == 2) first.swap(second);
    use_everything(*first);
    use_everything(*second);
    use_everything(world->all());
    // Shared memory of two groups and of all at once.
    const auto one = world->allocate(100'000), other = world->allocate(100'000);
    for (const auto& [group, memory] :
         {std::pair{first.get(), one}, {second.get(), other}, {&world->all(), one}}) {
      group->share(memory, 100'000, "memory");
      auto* data = static_cast<float*>(static_cast<void*>(memory.get()));
      const auto mine = samples<float>(group->rank(), 0, 25'000);
      std::copy(mine.begin(), mine.end(), data);
      group->all_reduce(data, 25'000, Dtype::f32, "sum").wait();
      EXPECT_TRUE(
          same_bits(std::vector<float>(data, data + 25'000), serial_sums<float>(group->size(), 0, 25'000)));
    }
  });
  EXPECT_THAT(ranks.outcomes(), Each(""));
}

// A rank may join after others have made groups and regions: what the file has become does not matter to it.
TEST(ShmWorld, ALateRankAndMemoryThatGoesBack) {
  const ShmSegment segment(3);
  struct stat status {};
  TestRanks early(2, [&](int rank) {
    const auto world = open_shm_world(segment.fd(), rank, 3, patient());
    std::vector<float> data(300'000, 1.0f);
    for (int i = 0; i < 40; ++i)
      world->make_group({0, 1}, "pair")->all_reduce(data.data(), 300'000, Dtype::f32, "x").wait();
    world->all().barrier("all");
  });
  TestRanks late(1, [&](int) {
    while (fstat(segment.fd(), &status) != 0 || static_cast<size_t>(status.st_size) < size_t{1} << 44)
      std::this_thread::yield();
    open_shm_world(segment.fd(), 2, 3, patient())->all().barrier("all");
  });
  EXPECT_THAT(early.outcomes(), Each(""));
  EXPECT_THAT(late.outcomes(), Each(""));
  ASSERT_EQ(fstat(segment.fd(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, int64_t{20} << 20);  // of 40 groups with megabytes each
}

TEST(ShmWorld, AKilledProcessIsNamedWhateverItsGroupWaitsFor) {
  for (const bool joined : {false, true}) {
    const ShmSegment segment(3);
    TestRanks ranks(3, [&](int rank) {
      const auto world = open_shm_world(segment.fd(), rank, 3, patient());
      world->all().barrier("start");
      const auto pair = rank == 1 || (rank == 2 && joined) ? world->make_group({1, 2}, "pair") : nullptr;
      if (rank == 2) raise(SIGKILL);
      float x = 0;
      if (rank != 1) return;
      const std::string first = outcome_of([&] { pair->recv(&x, 1, Dtype::f32, 1, "act").wait(); });
      // The world is told, with the rank's number there.
      EXPECT_THAT(outcome_of([&] { world->all().barrier("later"); }),
                  HasSubstr("PeerLost 2: rank 1 (2 of the world)"));
      throw Recoverable(first);
    });
    EXPECT_THAT(
        ranks.outcome(1),
        AllOf(HasSubstr("Recoverable: PeerLost 1: rank 1 (2 of the world) was lost: its process"),
              HasSubstr("has died"), HasSubstr("group 'pair', message 0 recv(f32[1] from 1, \"act\")")));
    EXPECT_EQ(ranks.outcome(0), "");
    EXPECT_EQ(ranks.outcome(2), "signal 9");
  }
}

TEST(ShmWorld, TheLaunchersWordBreaksGroupsToo) {
  ShmSegment segment(3);
  TestRanks ranks(2, [&](int rank) {
    open_shm_world(segment.fd(), rank, 3, patient())->make_group({0, 1, 2}, "mine")->barrier("x");
  });
  segment.mark_dead(2, "exited with code 1");
  EXPECT_THAT(ranks.outcomes(), Each(HasSubstr("PeerLost 2: rank 2 was lost: exited with code 1")));
}

TEST(ShmWorld, ARankOfAnotherGenerationIsRefused) {
  const ShmSegment segment(2, GroupOptions{}.slot_bytes, /*generation=*/2);
  TestRanks ranks(2, [&](int rank) {
    GroupOptions options = patient();
    for (const int other : {0, 1, 3}) {
      options.generation = other;
      EXPECT_EQ(
          outcome_of([&] { open_shm_world(segment.fd(), rank, 2, options); }),
          fmt::format("Error: shared segment (file descriptor {}): of generation 2 of the world; rank {} "
                      "is of generation {}",
                      segment.fd(), rank, other));
    }
    options.generation = 2;
    use_everything(open_shm_world(segment.fd(), rank, 2, options)->all());
  });
  EXPECT_THAT(ranks.outcomes(), Each(""));
}

TEST(ShmWorld, MismatchesBetweenProcesses) {
  const ShmSegment segment(3);
  TestRanks lists(3, [&](int rank) {
    const auto world = open_shm_world(segment.fd(), rank, 3, patient());
    world->make_group(rank == 1 ? std::vector{0, 1} : std::vector{0, 1, 2}, "tp")->barrier("x");
  });
  EXPECT_THAT(lists.outcomes(),
              Each(AllOf(HasSubstr("Error: group 'tp': rank "), HasSubstr("ank 1 says"), HasSubstr("0-2"))));
  const ShmSegment other(2);
  TestRanks messages(2, [&](int rank) {
    const auto world = open_shm_world(other.fd(), rank, 2, patient());
    std::vector<float> data(9);
    if (rank == 0) world->all().send(data.data(), 8, Dtype::f32, 1, "act").wait();
    if (rank == 1) world->all().recv(data.data(), 9, Dtype::f32, 0, "act").wait();
  });
  EXPECT_THAT(messages.outcomes(), Each(AllOf(HasSubstr("Error: "), HasSubstr("send(f32[8] to 1, \"act\")"),
                                              HasSubstr("recv(f32[9] from 0, \"act\")"))));
}

}  // namespace
}  // namespace athanor::tests::shm_world_test
