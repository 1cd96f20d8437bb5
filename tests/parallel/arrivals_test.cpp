// The first of several messages, whoever sends it; and what becomes of those who never send.
#include "athanor/parallel/parameter_server/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <latch>

#include "athanor/base/error.h"
#include "athanor/comm/shm/thread.h"

namespace athanor::tests::arrivals_test {
namespace {

using ::testing::HasSubstr;

GroupOptions patient() {
  GroupOptions options;
  options.timeout_ms = 600'000;
  return options;
}

TEST(Arrivals, ComeInTheOrderOfTheirSenders) {
  const auto groups = make_thread_groups(4, patient());
  const std::vector<int> order = {2, 0, 1, 1, 0, 2, 2};
  run_ranks(groups, [&](Group& group) {
    if (group.rank() == 3) {
      Arrivals arrivals(group, 3);
      std::array<int64_t, 3> values{};
      const auto expect = [&](int sender) {
        arrivals.expect(sender,
                        group.recv(&values.at(static_cast<size_t>(sender)), 1, Dtype::i64, sender, "x"));
      };
      for (const int sender : {0, 1, 2}) expect(sender);
      for (size_t i = 0; i < order.size(); ++i) {
        int64_t turn = order[i];  // the next to send
        for (int to : {0, 1, 2}) group.send(&turn, 1, Dtype::i64, to, "turn").wait();
        EXPECT_EQ(arrivals.next(), order[i]);
        EXPECT_EQ(values.at(static_cast<size_t>(order[i])), static_cast<int64_t>(i));
        expect(order[i]);
      }
      // The others' messages may wait.
      int64_t all = 3;
      for (int to : {0, 1, 2}) group.send(&all, 1, Dtype::i64, to, "turn").wait();
      for (const int sender : {1, 2, 0}) arrivals.wait_for(sender);
      for (const int sender : {0, 1, 2}) EXPECT_FALSE(arrivals.expects(sender));
      return;
    }
    int64_t turn = 0;
    for (int64_t i = 0; turn != 3; ++i) {
      group.recv(&turn, 1, Dtype::i64, 3, "turn").wait();
      if (turn == group.rank() || turn == 3) group.send(&i, 1, Dtype::i64, 3, "x").wait();
    }
  });
}

TEST(Arrivals, ASenderThatDiesIsNamed) {
  const auto groups = make_thread_groups(3, patient());
  std::latch received(1);
  std::string message;
  EXPECT_THROW(run_ranks(groups,
                         [&](Group& group) {
                           if (group.rank() == 1) {
                             received.wait();
                             throw Error("worker fault");
                           }
                           int64_t value = 0;
                           if (group.rank() == 0) {
                             group.send(&value, 1, Dtype::i64, 2, "x").wait();
                             group.recv(&value, 1, Dtype::i64, 2, "never").wait();
                             return;
                           }
                           Arrivals arrivals(group, 2);
                           int64_t other = 0;
                           arrivals.expect(0, group.recv(&value, 1, Dtype::i64, 0, "x"));
                           arrivals.expect(1, group.recv(&other, 1, Dtype::i64, 1, "x"));
                           EXPECT_EQ(arrivals.next(), 0);
                           received.count_down();
                           try {
                             arrivals.next();
                           } catch (const Recoverable& error) {
                             message = error.what();
                             throw;
                           }
                         }),
               Error);
  EXPECT_THAT(message, HasSubstr("rank 1"));
}

TEST(Arrivals, OneThatStopsListeningTellsTheOthers) {
  const auto groups = make_thread_groups(2, patient());
  EXPECT_THROW(run_ranks(groups,
                         [&](Group& group) {
                           int64_t value = 0;
                           if (group.rank() == 0) {
                             group.recv(&value, 1, Dtype::i64, 1, "never").wait();
                             return;
                           }
                           Arrivals arrivals(group, 1);
                           arrivals.expect(0, group.recv(&value, 1, Dtype::i64, 0, "x"));
                         }),
               Recoverable);
}

}  // namespace
}  // namespace athanor::tests::arrivals_test
