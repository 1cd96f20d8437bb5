// `athanor bench comm`: it checks before it times, says what it measured, and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/small_run.h"

namespace athanor::tests::bench_comm_test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> bench_comm(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"bench", "comm", "--samples", "2", "--repeats", "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(BenchComm, EveryOperationOnEveryTransport) {
  const Workplace place;
  for (const char* op : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"})
    for (const char* transport : {"shm", "thread"})
      for (const char* dtype : {"f32", "bf16"})
        for (const char* shared : {"yes", "no"}) {
          const auto report = nlohmann::json::parse(
              place.output_of(bench_comm({"--op", op, "--ranks", "3", "--bytes", "300000", "--dtype", dtype,
                                          "--transport", transport, "--shared", shared, "--json"})));
          EXPECT_EQ(report["op"], op);
          EXPECT_EQ(report["ranks"], 3);
          EXPECT_EQ(report["bytes"], 300000);
          EXPECT_EQ(report["dtype"], dtype);
          EXPECT_EQ(report["transport"], transport);
          EXPECT_EQ(report["shared"], std::string(shared) == "yes");
          EXPECT_EQ(report["samples"], 2);
          const double median = report["median_seconds"];
          EXPECT_GT(median, 0.0);
          EXPECT_LE(report["min_seconds"], median);
          EXPECT_GE(report["max_seconds"], median);
          EXPECT_NEAR(report["percent_of_copy"].get<double>(),
                      report["copy_seconds"].get<double>() / median * 100, 1e-6);
          EXPECT_NEAR(report["algorithm_gbps"].get<double>(), 300000 / median * 1e-9, 1e-9);
        }
  EXPECT_TRUE(nothing_left_running());
}

TEST(BenchComm, OneRankAndPlainText) {
  const Workplace place;
  EXPECT_THAT(place.output_of(bench_comm({"--ranks", "1", "--bytes", "1KiB"})),
              HasSubstr("1.0 KiB f32 between 1 rank"));
}

TEST(BenchComm, WrongArguments) {
  const Workplace place;
  expect_refused(place.run(bench_comm({"--op", "all_redcue"})), 2, {"all_redcue", "all_reduce"});
  expect_refused(place.run(bench_comm({"--op", "qwertyuiop"})), 2, {"qwertyuiop", "known", "broadcast"});
  expect_refused(place.run(bench_comm({"--bytes", "0"})), 2, {"--bytes 0"});
  expect_refused(place.run(bench_comm({"--bytes", "-4"})), 2, {"-4"});
  expect_refused(place.run(bench_comm({"--bytes", "10", "--dtype", "f32"})), 2,
                 {"--bytes 10", "multiple of 4"});
  expect_refused(place.run(bench_comm({"--bytes", "8", "--ranks", "3", "--op", "all_gather"})), 2,
                 {"--bytes 8", "multiple of 12"});
  expect_refused(place.run(bench_comm({"--bytes", "1000000TiB"})), 1, {"memory"});
  expect_refused(place.run(bench_comm({"--ranks", "0"})), 2, {"--ranks 0", "1 to 64"});
  expect_refused(place.run(bench_comm({"--ranks", "65"})), 2, {"--ranks 65", "1 to 64"});
  expect_refused(place.run(bench_comm({"--dtype", "f16"})), 2, {"f16"});
  expect_refused(place.run(bench_comm({"--transport", "tcp"})), 2, {"tcp"});
  expect_refused(place.run({"bench", "comm", "--samples", "0"}), 2, {"--samples 0"});
  expect_refused(place.run({"bench", "comm", "--repeats", "0"}), 2, {"--repeats 0"});
  expect_refused(place.run(bench_comm({"--bytes", "many"})), 2, {"many"});
  expect_refused(place.run({"bench", "com"}), 2, {"com"});
  EXPECT_TRUE(nothing_left_running());
}

// The ranks die with a killed bench, and what they shared with them.
TEST(BenchComm, KilledLeavesNothing) {
  const Workplace place;
  Program run = place.start({"bench", "comm", "--ranks", "3", "--samples", "1000000000"});
  ASSERT_TRUE(run.wait_until([&] { return ranks_of(run.pid()).size() == 3; }));
  run.signal(SIGKILL);
  EXPECT_EQ(run.finish().signal, SIGKILL);
  EXPECT_TRUE(nothing_left_running(/*patient=*/true));
}

TEST(BenchComm, AKilledRankIsNamed) {
  const Workplace place;
  Program run = place.start({"bench", "comm", "--ranks", "3", "--samples", "1000000000"});
  ASSERT_TRUE(run.wait_until([&] { return ranks_of(run.pid()).size() == 3; }));
  ASSERT_EQ(kill(ranks_of(run.pid()).at(2), SIGKILL), 0);
  const Outcome outcome = run.finish();
  EXPECT_EQ(outcome.exit_code, 1) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("rank 2 was killed by signal 9 (SIGKILL)"));
  EXPECT_TRUE(nothing_left_running());
}

}  // namespace
}  // namespace athanor::tests::bench_comm_test
