// `athanor-bench pipeline`: it runs what it says and puts both figures side by side. How long it takes is not asked here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/small_run.h"

namespace athanor::tests::bench_pipeline_test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> bench_pipeline(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {kBench, "pipeline", "--rounds", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(BenchPipeline, TimedStagesOfEverySchedule) {
  const Workplace place;
  const auto report = nlohmann::json::parse(place.output_of(
      bench_pipeline({"--ranks", "2", "--micro-batches", "3", "--times", "0.1,0.2,0.1", "--json"})));
  EXPECT_EQ(report["stages"], "timed");
  ASSERT_EQ(report["schedules"].size(), 8u);  // seven and what auto makes
  for (const auto& row : report["schedules"]) {
    const double measured = row["measured_ms"]["median"], simulated = row["simulated_ms"]["median"];
    EXPECT_GE(measured, simulated) << row["schedule"];  // stages take at least the times that are given
    EXPECT_NEAR(row["ratio"].get<double>(), measured / simulated, 1e-9);
  }
  // Three micro-batches on each of two ranks, and a ramp of one more: (3 + 1) (F + B).
  EXPECT_NEAR(report["schedules"][0]["simulated_ms"]["median"].get<double>(), 1.6, 1e-9);
}

TEST(BenchPipeline, RealStages) {
  const Workplace place;
  const auto report = nlohmann::json::parse(
      place.output_of(bench_pipeline({"--stages", "real", "--micro-batches", "2", "--batch", "1", "--seq",
                                      "8", "--schedule", "zb-h1", "--json"})));
  EXPECT_EQ(report["ranks"], 2);
  ASSERT_EQ(report["schedules"].size(), 1u);
  EXPECT_GT(report["schedules"][0]["simulated_ms"]["median"], 0.0);
}

TEST(BenchPipeline, PlainTextAndWrongArguments) {
  const Workplace place;
  EXPECT_THAT(place.output_of(bench_pipeline({"--schedule", "1f1b", "--ranks", "1", "--times", "0,0.1,0"})),
              HasSubstr("timed stages, 1 ranks, 8 micro-batches, 1 rounds"));
  expect_refused(place.run(bench_pipeline({"--schedule", "1f1"})), 2, {"1f1", "1f1b"});
  expect_refused(place.run(bench_pipeline({"--times", "1,2"})), 2, {"bench pipeline", "'1,2'"});
  expect_refused(place.run(bench_pipeline({"--ranks", "0"})), 2, {"--ranks"});
  expect_refused(place.run(bench_pipeline({"--stages", "imagined"})), 2, {"imagined"});
  expect_refused(place.run(bench_pipeline({"--stages", "real", "--preset", "llama-tyni"})), 2,
                 {"llama-tyni"});
}

}  // namespace
}  // namespace athanor::tests::bench_pipeline_test
