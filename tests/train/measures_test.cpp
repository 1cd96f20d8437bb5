// What a run says of its speed, on a clock that the test moves: each rank has its own, which goes on by a tick
// whenever it is read and by what the script says while the rank waits for others.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "train/hooked_world.h"
#include "train/whole_run.h"

namespace athanor::tests::measures_test {
namespace {

constexpr double kTick = 1.0 / 4096,
                 kMostTicks = 256 * kTick;  // of a step; binary fractions, so that sums are exact
constexpr double kGradientSeconds = 0.125;  // of each wait for a sum of gradients
constexpr std::array kLossSeconds = {64.0, 1.0, 2.0, 4.0, 8.0};  // of the wait for the sum of losses, by step

// 6 times the parameters in products, counted by hand: q, k, v, o, then gate, up, down, then the head; and the scores.
constexpr double kFlopsPerToken = 6.0 * (4 * 16 * 16 + 3 * 16 * 24 + 41 * 16) + 6.0 * 1 * 6 * 16;

struct Measures : ::testing::Test {
  Measures() : run(2) {
    run.config.train.steps = std::ssize(kLossSeconds);
    run.config.train.global_batch_size = 6;  // three micro-batches: two of rank 0
    run.config.checkpoint.every_steps = 100;
    report = run.train(files, [this](const Config& config, World& world, TrainIo& io) {
      double now = 1000.0;
      size_t step = 0;
      double waited = 0.0;
      HookedWorld hooked(world, {.call = "", .in_wait = [&](const std::string& name) {
                                   const bool sums_losses = name == "losses";
                                   const double seconds = sums_losses ? kLossSeconds.at(step++)
                                                          : name.starts_with("gradients ") ? kGradientSeconds
                                                                                           : 0.0;
                                   now += seconds;
                                   waited += seconds;
                                   if (!sums_losses || world.rank() != 0) return;
                                   waits.push_back(std::exchange(waited, 0.0));
                                 }});
      io.clock = [&now] { return now += kTick; };
      return athanor::run::train(config, hooked, io);
    });
    metrics = run.metrics();
  }

  WholeRun run;
  RealFiles files;
  TrainReport report;
  std::vector<double> waits;  // of rank 0 for others, by step
  std::vector<StepMetrics> metrics;
};

TEST_F(Measures, CommSecondsAreTheTimeThatTheRankWaitedForOthers) {
  ASSERT_EQ(metrics.size(), kLossSeconds.size());
  ASSERT_EQ(waits.size(), metrics.size());
  for (size_t step = 0; step < metrics.size(); ++step) {
    EXPECT_GT(waits[step], kLossSeconds[step]);  // the gradients, too
    EXPECT_GE(metrics[step].comm_seconds, waits[step]) << "step " << step + 1;
    EXPECT_LE(metrics[step].comm_seconds, waits[step] + kMostTicks) << "step " << step + 1;
  }
}

TEST_F(Measures, DataSecondsAreTheTimeUntilTheMicroBatchesOfTheRankWereThere) {
  for (const StepMetrics& m : metrics) EXPECT_EQ(m.data_seconds, 2 * kTick) << "step " << m.step;
}

TEST_F(Measures, StepSecondsAreTheWholeStep) {
  for (size_t step = 0; step < metrics.size(); ++step) {
    const StepMetrics& m = metrics[step];
    EXPECT_GT(m.step_seconds, m.comm_seconds + m.data_seconds) << "step " << m.step;
    EXPECT_LE(m.step_seconds, waits[step] + kMostTicks) << "step " << m.step;
  }
}

TEST_F(Measures, RatesAreTokensOfAllRanksPerSecondOfTheStep) {
  for (const StepMetrics& m : metrics)
    EXPECT_EQ(m.tokens_per_second, 36.0 / m.step_seconds) << "step " << m.step;
}

TEST_F(Measures, MfuIsTheShareOfThePeakOfAllRanks) {
  for (const StepMetrics& m : metrics)
    EXPECT_DOUBLE_EQ(m.mfu, 36.0 / m.step_seconds * kFlopsPerToken / (2 * WholeRun::kPeakFlops))
        << "step " << m.step;
  EXPECT_DOUBLE_EQ(report.mfu, report.tokens_per_second * kFlopsPerToken / (2 * WholeRun::kPeakFlops));
}

// It waits for memory, files and what else is there only once, here 64 s.
TEST_F(Measures, TheRateOfTheRunIsTheMedianWithoutTheFirstStepOfTheProcess) {
  std::vector<double> rates;
  for (size_t step = 1; step < metrics.size(); ++step) rates.push_back(metrics[step].tokens_per_second);
  std::sort(rates.begin(), rates.end());
  EXPECT_EQ(report.tokens_per_second, rates[2]);
  EXPECT_NEAR(report.tokens_per_second, 36.0 / waits[2], 0.05 * 36.0 / waits[2]);
}

}  // namespace
}  // namespace athanor::tests::measures_test
