// GroupOptions::on_waited: how long a thread has waited for the others.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "athanor/comm/group.h"
#include "athanor/comm/shm/thread.h"

namespace athanor::tests::waited_test {
namespace {

constexpr int64_t kLate = 1'000'000'000;

// Rank 1 comes when rank 0 waits, and a second later by their clock.
struct Late {
  Late() {
    options.now_ns = [this] {
      const int64_t now = clock_ns;
      if (std::this_thread::get_id() == waiter.load() && !was_seen.exchange(true)) waits.count_down();
      return now;
    };
    options.on_waited = [this](int64_t ns) {
      (std::this_thread::get_id() == waiter.load() ? early_ns : late_ns) += ns;
    };
  }
  // Of both ranks, each in a thread.
  template <typename Start>
  void run(Start start) {
    auto groups = make_thread_groups(2, options);
    std::thread early([&] {
      Work work = start(*groups[0]);
      waiter = std::this_thread::get_id();
      work.wait();
    });
    std::thread late([&] {
      waits.wait();
      clock_ns += kLate;
      start(*groups[1]).wait();
    });
    early.join();
    late.join();
  }
  GroupOptions options;
  std::atomic<int64_t> clock_ns = 1, early_ns = 0, late_ns = 0;
  std::atomic<std::thread::id> waiter{};
  std::atomic<bool> was_seen = false;
  std::latch waits{1};
};

TEST(Waited, ForACollectiveIsTold) {
  Late ranks;
  ranks.run([](Group& group) -> Work {
    static float sums[2];
    return group.all_reduce(&sums[group.rank()], 1, Dtype::f32, "sum");
  });
  EXPECT_EQ(ranks.early_ns, kLate);
  EXPECT_EQ(ranks.late_ns, 0);
}

TEST(Waited, ForAMessageIsTold) {
  Late ranks;
  ranks.run([](Group& group) -> Work {
    static float values[2];
    if (group.rank() == 0) return group.recv(&values[0], 1, Dtype::f32, 1, "value");
    return group.send(&values[1], 1, Dtype::f32, 0, "value");
  });
  EXPECT_EQ(ranks.early_ns, kLate);
  EXPECT_EQ(ranks.late_ns, 0);
}

}  // namespace
}  // namespace athanor::tests::waited_test
