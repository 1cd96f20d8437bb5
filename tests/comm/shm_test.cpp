// The shared-segment transport: the same results as serially, and deaths of real processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "athanor/base/error.h"
#include "athanor/comm/shm/shm.h"
#include "athanor/comm/tree.h"
#include "comm/forked.h"
#include "comm/reference.h"
#include "comm/stuck_clock.h"

namespace athanor::tests::shm_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

int64_t open_descriptors() {
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += entry.exists() ? 1 : 0;
  return count;
}

void reduce_everything(Group& group) {
  const int n = group.size(), me = group.rank();
  for (int64_t count : {0, 1, 63, 64, 257, 1000, 20011}) {
    auto f32 = samples<float>(me, 0, count);
    auto bf16 = samples<Bf16>(me, 0, count);
    Work a = group.all_reduce(f32.data(), count, Dtype::f32, "f32");
    Work b = group.all_reduce(bf16.data(), count, Dtype::bf16, "bf16");
    a.wait();
    b.wait();
    EXPECT_TRUE(same_bits(f32, serial_sums<float>(n, 0, count))) << n << " ranks, " << count;
    EXPECT_TRUE(same_bits(bf16, serial_sums<Bf16>(n, 0, count))) << n << " ranks, " << count;
    const auto rows = samples<double>(me, 0, n * count);
    std::vector<double> row(static_cast<size_t>(count));
    group.reduce_scatter(rows.data(), row.data(), count, Dtype::f64, "rs").wait();
    EXPECT_TRUE(same_bits(row, serial_sums<double>(n, me * count, count)));
    std::vector<double> all(static_cast<size_t>(n * count));
    group.all_gather(row.data(), all.data(), count, Dtype::f64, "gather").wait();
    EXPECT_TRUE(same_bits(all, serial_sums<double>(n, 0, n * count)));
    std::vector<double> turned(static_cast<size_t>(n * count));
    group.all_to_all(rows.data(), turned.data(), count, Dtype::f64, "turn").wait();
    EXPECT_TRUE(same_bits(turned, rows_for<double>(me, n, count)));
    auto data = samples<int64_t>(me, 0, count);
    group.broadcast(data.data(), count, Dtype::i64, n - 1, "broadcast").wait();
    EXPECT_TRUE(same_bits(data, samples<int64_t>(n - 1, 0, count)));
    const int64_t leaves = 2 * n + 1;
    std::vector<TreeNode> nodes;
    std::vector<std::vector<float>> buffers;
    const auto [first, last] = micro_batches_of_rank(leaves, n, me);
    for (const auto& range : cover_nodes(first, last, leaves)) {
      buffers.push_back(node_sum(range, leaves, count));
      nodes.push_back({range.first, range.second, buffers.back().data()});
    }
    group.all_reduce_tree(nodes, leaves, nodes[0].data, count, "tree").wait();
    EXPECT_TRUE(same_bits(buffers[0], node_sum({0, leaves}, leaves, count)));
  }
  group.barrier("end");
}

TEST(Shm, EveryCollectiveBetweenProcesses) {
  for (const size_t slot_bytes : {size_t{1024}, GroupOptions{}.slot_bytes})
    for (int n : {1, 2, 3, 4, 8}) {
      const ShmSegment segment(n, slot_bytes);
      TestRanks ranks(n, [&](int rank) {
        const auto group = open_shm_group(segment.fd(), rank, n, patient());
        reduce_everything(*group);
      });
      EXPECT_THAT(ranks.outcomes(), Each("")) << n << " ranks, slots of " << slot_bytes;
    }
}

// kill -9 in the middle of a collective; nobody but the survivors themselves can notice.
TEST(Shm, AKilledProcessIsNamedByTheOthers) {
  for (int victim : {0, 1, 2}) {
    const ShmSegment segment(3);
    TestRanks ranks(3, [&](int rank) {
      const auto group = open_shm_group(segment.fd(), rank, 3, patient());
      std::vector<float> data(300'000, 1.0f);
      group->all_reduce(data.data(), 300'000, Dtype::f32, "first").wait();
      if (rank == victim) raise(SIGKILL);
      group->all_reduce(data.data(), 300'000, Dtype::f32, "second").wait();
    });
    // The victim is a zombie until here: a process that has not been reaped is dead all the same.
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      EXPECT_THAT(
          ranks.outcome(rank),
          AllOf(HasSubstr("PeerLost " + std::to_string(victim)), HasSubstr("has died"),
                HasSubstr("last called collective 0 all_reduce(f32[300000], \"first\") and finished it")));
    }
    EXPECT_EQ(ranks.outcome(victim), "signal 9");
  }
}

TEST(Shm, TheLaunchersWordReachesThoseWhoWait) {
  ShmSegment segment(3);
  TestRanks ranks(2, [&](int rank) {  // rank 2 never comes: it died before it could join
    const auto group = open_shm_group(segment.fd(), rank, 3, patient());
    group->barrier("x");
  });
  segment.mark_dead(2, "exited with code 1");
  for (int rank : {0, 1})
    EXPECT_THAT(ranks.outcome(rank), HasSubstr("PeerLost 2: rank 2 was lost: exited with code 1"));
  ASSERT_TRUE(segment.failure());
  EXPECT_EQ(segment.failure()->rank, 2);
}

TEST(Shm, ARankThatEndsEarlyHasLeft) {
  ShmSegment segment(2);
  TestRanks ranks(2, [&](int rank) {
    const auto group = open_shm_group(segment.fd(), rank, 2, patient());
    group->barrier("both");
    if (rank == 0) group->barrier("one more");
  });
  EXPECT_EQ(ranks.outcome(1), "");
  EXPECT_THAT(ranks.outcome(0), HasSubstr("PeerLost 1: rank 1 was lost: it has left the group"));
}

TEST(Shm, MismatchAndTimeoutBetweenProcesses) {
  const ShmSegment segment(2);
  TestRanks mismatch(
      2, [&](int rank) { open_shm_group(segment.fd(), rank, 2, patient())->barrier(rank == 0 ? "a" : "b"); });
  EXPECT_THAT(mismatch.outcomes(), Each(AllOf(HasSubstr("Error: "), HasSubstr("rank 0 called barrier(\"a\")"),
                                              HasSubstr("rank 1 called barrier(\"b\")"))));
  const ShmSegment slow(2);
  TestRanks timeout(1, [&](int rank) {
    auto options = patient();
    options.timeout_ms = 60;
    open_shm_group(slow.fd(), rank, 2, options)->barrier("alone");
  });
  EXPECT_THAT(timeout.outcome(0),
              AllOf(HasSubstr("Timeout: "), HasSubstr("rank 1, which has not joined yet")));
}

// A stopped process is alive: late, and at last a timeout.
TEST(Shm, AStoppedProcessTimesOut) {
  const ShmSegment segment(2);
  TestRanks ranks(2, [&](int rank) {
    auto options = patient();
    options.timeout_ms = 200;
    StuckClock clock(/*ranks=*/1, /*waiting=*/1);
    options.now_ns = [&] { return clock.now_ns(); };
    const auto group = open_shm_group(segment.fd(), rank, 2, options);
    group->barrier("both");
    if (rank == 0) clock.stuck();
    if (rank == 1) raise(SIGSTOP);
    group->barrier("stopped");
  });
  EXPECT_THAT(ranks.outcome(0),
              AllOf(HasSubstr("Timeout: "), HasSubstr("rank 1, which last called collective 0")));
  kill(ranks.pid(1), SIGCONT);
  EXPECT_THAT(ranks.outcome(1), HasSubstr("Timeout: "));  // it hears what the others did
}

TEST(Shm, RefusesWhatIsNotItsSegment) {
  EXPECT_THROW(open_shm_group(-1, 0, 2), IoError);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_THROW(open_shm_group(ends[0], 0, 2), Error);
  close(ends[0]);
  close(ends[1]);
  const int zeros = memfd_create("zeros", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(zeros, 1 << 20), 0);
  EXPECT_THROW(open_shm_group(zeros, 0, 2), Error);  // could be cut short under us
  ASSERT_EQ(fcntl(zeros, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_THROW(open_shm_group(zeros, 0, 2), Error);  // no header
  close(zeros);
  const ShmSegment segment(2);
  EXPECT_THROW(open_shm_group(segment.fd(), 0, 3), Error);
  EXPECT_THROW(open_shm_group(segment.fd(), 2, 2), Error);
  EXPECT_THROW(open_shm_group(segment.fd(), -1, 2), Error);
  const auto group = open_shm_group(segment.fd(), 0, 2);
  EXPECT_THROW(open_shm_group(segment.fd(), 0, 2), Error);  // taken
  EXPECT_THROW(ShmSegment(0), Error);
  EXPECT_THROW(ShmSegment(2, 100), Error);
}

TEST(Shm, LeavesNothingOpen) {
  const int64_t before = open_descriptors();
  for (int i = 0; i < 3; ++i) {
    const ShmSegment segment(1);
    open_shm_group(segment.fd(), 0, 1)->barrier("x");
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace athanor::tests::shm_test
