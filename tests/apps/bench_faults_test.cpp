// `athanor-bench faults`: a handful of its trials of law 8, of every kind on every transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/small_run.h"

namespace athanor::tests::bench_faults_test {
namespace {

std::vector<std::string> bench_faults(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {kBench, "faults", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void expect_all_named(const std::string& document, const std::vector<std::string>& kinds, int trials) {
  const auto rows = nlohmann::json::parse(document);
  std::vector<std::string> seen;
  for (const auto& row : rows) {
    seen.push_back(row["kind"]);
    EXPECT_EQ(row["trials"], trials);
    EXPECT_EQ(row["named"], trials) << row;
  }
  EXPECT_EQ(seen, kinds);
}

TEST(BenchFaults, EveryRankIsToldWhoWentWrongAndWhere) {
  const Workplace place;
  for (const char* transport : {"thread", "shm", "gloo"})
    for (const char* kind : {"none", "shape", "missing", "dead"})
      // Nobody is late before a minute has passed, however slow the machine is.
      expect_all_named(place.output_of(bench_faults({"--transport", transport, "--kind", kind, "--trials",
                                                     "6", "--late-ms", "60000"})),
                       {kind}, 6);
  EXPECT_TRUE(nothing_left_running());
}

TEST(BenchFaults, AStragglerIsReported) {
  const Workplace place;
  for (const char* transport : {"thread", "shm", "gloo"})
    expect_all_named(place.output_of(bench_faults({"--transport", transport, "--kind", "straggler",
                                                   "--trials", "4", "--late-ms", "40"})),
                     {"straggler"}, 4);
}

TEST(BenchFaults, PlainTextAndAllKinds) {
  const Workplace place;
  const std::string text =
      place.output_of({kBench, "faults", "--transport", "thread", "--trials", "1", "--late-ms", "40"});
  for (const char* kind : {"straggler", "shape", "missing", "dead"})
    EXPECT_THAT(text, ::testing::ContainsRegex(std::string("thread  ") + kind + " +1 of 1 named"));
}

TEST(BenchFaults, WrongArguments) {
  const Workplace place;
  expect_refused(place.run({kBench, "faults", "--trials", "0"}), 2, {"--trials 0"});
  expect_refused(place.run({kBench, "faults", "--first", "-1"}), 2, {"--first -1"});
  expect_refused(place.run({kBench, "faults", "--late-ms", "0"}), 2, {"--late-ms 0"});
  expect_refused(place.run({kBench, "faults", "--kind", "strangler"}), 2, {"strangler"});
  expect_refused(place.run({kBench, "faults", "--transport", "mpi"}), 2, {"mpi"});
}

}  // namespace
}  // namespace athanor::tests::bench_faults_test
