// The clocks of a parameter server, driven by scripts: who may go on when, how stale gradients are, and the log.
#include "athanor/parallel/parameter_server/push_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "athanor/base/error.h"
#include "athanor/base/philox.h"
#include "athanor/parallel/parameter_server/push_log.h"
#include "support/temporary_folder.h"

namespace athanor::tests::push_order_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PushOrder, AsynchronousWorkersNeverWait) {
  PushOrder order(2, PushOrder::kUnbounded, 0, 0);
  EXPECT_THAT(order.take_answers(), ElementsAre(0, 1));
  EXPECT_THAT(order.take_answers(), IsEmpty());
  for (int64_t step = 1; step <= 5; ++step) {
    order.apply({.worker = 0, .step = step});
    EXPECT_THAT(order.take_answers(), ElementsAre(0));
    EXPECT_EQ(order.staleness(0), step);
  }
  // Of the parameters of update 0, five updates later; worker 1 is the slowest itself.
  EXPECT_EQ(order.apply({.worker = 1, .step = 1}),
            (PushRecord{.version = 6, .push = {.worker = 1, .step = 1}, .pulled = 0, .staleness = 0}));
  EXPECT_EQ(order.slowest(), 1);
}

TEST(PushOrder, AWorkerWaitsWhenItIsTooFarAhead) {
  PushOrder order(3, 1, 10, 40);  // a resumed run
  order.take_answers();
  order.apply({.worker = 2, .step = 11});
  EXPECT_THAT(order.take_answers(), ElementsAre(2));  // one ahead
  order.apply({.worker = 2, .step = 12});
  EXPECT_THAT(order.take_answers(), IsEmpty());  // two would be too many
  order.apply({.worker = 0, .step = 11});
  EXPECT_THAT(order.take_answers(), ElementsAre(0));
  order.apply({.worker = 1, .step = 11});
  EXPECT_THAT(order.take_answers(), ElementsAre(1, 2));
  EXPECT_EQ(order.apply({.worker = 2, .step = 13}).staleness, 1);
  EXPECT_EQ(order.version(), 45);
}

TEST(PushOrder, ACommitWaitsForAll) {
  PushOrder order(2, PushOrder::kUnbounded, 0, 0);
  order.take_answers();
  EXPECT_EQ(order.first_unknown_step(), 2);
  order.apply({.worker = 0, .step = 1, .commit = true});
  EXPECT_THAT(order.take_answers(), IsEmpty());
  EXPECT_FALSE(order.committed(1));
  order.apply({.worker = 1, .step = 1, .commit = true});
  EXPECT_FALSE(order.committed(1)) << "nobody was answered";
  EXPECT_THAT(order.take_answers(), ElementsAre(0, 1));
  EXPECT_TRUE(order.committed(1));
  EXPECT_EQ(order.staleness(0), 0);
  order.apply({.worker = 0, .step = 2});
  EXPECT_EQ(order.first_unknown_step(), 3);  // worker 0 waits, worker 1 computes step 2
}

TEST(PushOrder, RefusesWhatIsOutOfOrder) {
  EXPECT_THROW(PushOrder(0, 0, 0, 0), Error);
  EXPECT_THROW(PushOrder(1, -1, 0, 0), Error);
  PushOrder order(2, 0, 0, 0);
  EXPECT_THROW(order.apply({.worker = 0, .step = 1}), Error);  // was given no parameters
  order.take_answers();
  EXPECT_THROW(order.apply({.worker = 0, .step = 2}), Error);
  EXPECT_THROW(order.apply({.worker = 2, .step = 1}), Error);
  order.apply({.worker = 0, .step = 1});
  EXPECT_THROW(order.apply({.worker = 0, .step = 2}), Error);
}

// A thousand steps of workers of unequal speed, as a generator of random arrivals has them come. What the order says of
// staleness is held against a count that knows nothing of its clocks.
TEST(PushOrder, StalenessStaysWithinItsBoundForAThousandSteps) {
  constexpr int kWorkers = 5;
  constexpr int64_t kSteps = 1000;
  for (const int64_t bound : {0, 1, 3, 10}) {
    PushOrder order(kWorkers, bound, 0, 0);
    std::vector<int64_t> done(kWorkers, 0), slowest_at_pull(kWorkers, 0);
    std::vector<bool> computes(kWorkers, false);
    std::vector<std::vector<int64_t>> version_of_step(kWorkers);
    const auto pull = [&] {
      for (const int worker : order.take_answers()) {
        computes[static_cast<size_t>(worker)] = true;
        slowest_at_pull[static_cast<size_t>(worker)] = *std::min_element(done.begin(), done.end());
      }
    };
    pull();
    int64_t most = 0, pushes = 0;
    const RandomStream stream(9, "arrivals");
    for (uint64_t draw = 0; pushes < kWorkers * kSteps; ++draw) {
      ASSERT_LT(draw, 1'000'000u) << "all wait for each other";
      // Worker 0 is picked often, worker 4 seldom.
      const uint64_t ticket = stream.word(draw, 0) % 31;
      const size_t worker = ticket < 16 ? 0 : ticket < 24 ? 1 : ticket < 28 ? 2 : ticket < 30 ? 3 : 4;
      if (!computes[worker] || done[worker] == kSteps) continue;
      const PushRecord record = order.apply({.worker = static_cast<int>(worker), .step = done[worker] + 1});
      computes[worker] = false;
      EXPECT_EQ(record.staleness, done[worker] - slowest_at_pull[worker]);
      // Every gradient has seen all pushes of the steps that are older than its bound.
      const int64_t must_have = done[worker] - bound;
      for (int other = 0; must_have > 0 && other < kWorkers; ++other)
        ASSERT_LE(version_of_step[static_cast<size_t>(other)].at(static_cast<size_t>(must_have - 1)),
                  record.pulled);
      version_of_step[worker].push_back(record.version);
      ++done[worker];
      ++pushes;
      most = std::max(most, record.staleness);
      ASSERT_LE(record.staleness, bound);
      pull();
    }
    EXPECT_EQ(most, bound) << "the bound was never reached: the test tests nothing";
  }
}

class PushLogTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  std::string path_ = temporary_path("push_log.csv");
  PushRecord record(int64_t version) const {
    return {
        .version = version,
        .push = {.worker = static_cast<int>(version % 3), .step = version / 3 + 1, .commit = version == 4},
        .pulled = version - 1,
        .staleness = version % 2};
  }
};

TEST_F(PushLogTest, ReadsBackWhatWasWrittenAndIsCutOnAResume) {
  {
    PushLog log(system_env(), path_, 0);
    for (int64_t version = 1; version <= 6; ++version) log.write(record(version));
  }
  std::vector<PushRecord> records = read_push_log(system_env(), path_);
  ASSERT_EQ(records.size(), 6u);
  for (int64_t version = 1; version <= 6; ++version)
    EXPECT_EQ(records[static_cast<size_t>(version - 1)], record(version));
  {
    PushLog log(system_env(), path_, 2);
    EXPECT_EQ(log.version(), 5);  // the sixth push was of step 3
    log.write(record(6));
    EXPECT_EQ(log.version(), 6);
    system_env().append_to(path_)->append("7,0,3");  // torn by a kill
  }
  records = read_push_log(system_env(), path_);
  EXPECT_EQ(records.size(), 6u);
  EXPECT_EQ(records.back(), record(6));
  EXPECT_TRUE(records[3].push.commit);
  PushLog(system_env(), path_, 0);
  EXPECT_TRUE(read_push_log(system_env(), path_).empty());
}

TEST_F(PushLogTest, NamesTheLineThatIsBroken) {
  const auto message = [&](const std::string& lines) -> std::string {
    system_env().write_atomically(path_, "version,worker,step,commit,pulled,staleness\n" + lines);
    try {
      read_push_log(system_env(), path_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("1,0,1,0,0,0\n"), "");
  EXPECT_THAT(message("1,0,1,0,0,0\n2,x,1,0,0,0\n"), HasSubstr(":3: got '2,x,1,0,0,0'"));
  EXPECT_THAT(message("1,0,1,0,0\n"), HasSubstr(":2: got"));
  EXPECT_THAT(message("1,0,1,0,0,0,0\n"), HasSubstr(":2: got"));
  EXPECT_THAT(message("1,0,1,0,0,0\n3,0,2,0,0,0\n"), HasSubstr("got version 3 after 1"));
  system_env().write_atomically(path_, "step,loss\n");
  EXPECT_THROW(read_push_log(system_env(), path_), Error);
}

}  // namespace
}  // namespace athanor::tests::push_order_test
