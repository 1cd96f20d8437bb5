#include "athanor/optim/schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "athanor/base/error.h"
#include "athanor/config/load.h"
#include "athanor/config/phases.h"
#include "athanor/optim/loss_scale.h"

namespace athanor::tests::schedule_test {
namespace {

constexpr std::array kDecays = {"cosine", "linear", "polynomial", "constant", "wsd", "inverse_sqrt"};

LrSchedule make(const std::string& decay) {
  LrSchedule schedule;
  schedule.decay = decay;
  schedule.lr = 1.0;
  schedule.steps = 100;
  schedule.warmup_steps = 10;
  schedule.min_lr_ratio = 0.1;
  return schedule;
}

TEST(LrSchedule, WarmsUpInAStraightLine) {
  for (const char* decay : kDecays) {
    EXPECT_DOUBLE_EQ(make(decay).at(1), 0.1) << decay;
    EXPECT_DOUBLE_EQ(make(decay).at(5), 0.5) << decay;
    EXPECT_DOUBLE_EQ(make(decay).at(10), 1.0) << decay;
  }
}

TEST(LrSchedule, EndsWhereItShould) {
  EXPECT_DOUBLE_EQ(make("cosine").at(100), 0.1);
  EXPECT_DOUBLE_EQ(make("linear").at(100), 0.1);
  EXPECT_DOUBLE_EQ(make("constant").at(100), 1.0);
  EXPECT_DOUBLE_EQ(make("wsd").at(100), 0.1);
  EXPECT_DOUBLE_EQ(make("cosine").at(55), 0.55);  // half way
  EXPECT_DOUBLE_EQ(make("linear").at(55), 0.55);
  EXPECT_DOUBLE_EQ(make("wsd").at(80), 1.0);
  EXPECT_DOUBLE_EQ(make("wsd").at(90), 0.55);
}

TEST(LrSchedule, NeverRisesAfterWarmupAndNeverLeavesItsRange) {
  for (const char* decay : kDecays)
    for (int64_t step = 11; step <= 120; ++step) {
      EXPECT_LE(make(decay).at(step), make(decay).at(step - 1)) << decay << step;
      EXPECT_GE(make(decay).at(step), 0.1 - 1e-12) << decay << step;
    }
}

TEST(LrSchedule, WarmupMayExceedTheSteps) {
  LrSchedule schedule = make("cosine");
  schedule.warmup_steps = 200;
  EXPECT_DOUBLE_EQ(schedule.at(100), 0.5);
}

// A schedule that begins with step 301 has there the rates that one from step 1 has 300 steps earlier.
TEST(LrSchedule, BeginsWhereItsPhaseBegins) {
  for (const char* decay : kDecays) {
    LrSchedule late = make(decay);
    late.first_step = 301;
    for (int64_t step = 1; step <= 120; ++step) EXPECT_EQ(late.at(300 + step), make(decay).at(step)) << decay;
    EXPECT_THROW(late.at(300), Error);
  }
  EXPECT_THROW(make("cosine").at(0), Error);
}

LrSchedule schedule_of(const Config& config) {
  const ScheduleConfig& s = config.schedule;
  return {.decay = s.decay,
          .lr = config.optimizer.lr,
          .steps = s.steps,
          .warmup_steps = s.warmup_steps,
          .warmup_init_ratio = s.warmup_init_ratio,
          .min_lr_ratio = s.min_lr_ratio,
          .decay_fraction = s.wsd_decay_fraction,
          .power = s.power,
          .first_step = s.first_step};
}

// The learning rate of every step of a run, each from the settings of its phase.
std::vector<double> rates_of(const std::string& toml) {
  std::vector<double> rates;
  for (const PhaseConfig& phase : phases_of(parse_config(toml, "phases.toml")))
    for (int64_t step = phase.first_step; step <= phase.last_step; ++step)
      rates.push_back(schedule_of(phase.config).at(step));
  return rates;
}

void expect_rates(const std::string& toml, const std::vector<double>& expected) {
  const std::vector<double> rates = rates_of(toml);
  ASSERT_EQ(rates.size(), expected.size());
  for (size_t i = 0; i < rates.size(); ++i) EXPECT_NEAR(rates[i], expected[i], 1e-12) << "step " << i + 1;
}

// Warm-up, stable, long context, anneal. The second and the third phase name no schedule, so the first one's goes on.
TEST(LrSchedule, FollowsThePhasesOfARun) {
  expect_rates(
      "[optimizer]\nlr = 0.8\n[schedule]\ndecay = 'constant'\nwarmup_steps = 4\n"
      "[[phase]]\nname = 'warm-up'\nsteps = 4\n"
      "[[phase]]\nname = 'stable'\nsteps = 5\n"
      "[[phase]]\nname = 'long context'\nsteps = 3\ndata.seq_len = 128\n"
      "[[phase]]\nname = 'anneal'\nsteps = 4\nschedule.decay = 'linear'\nschedule.warmup_steps = 0\n"
      "schedule.min_lr_ratio = 0.0",
      {0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.6, 0.4, 0.2, 0.0});
}

// One decay over three phases has no jump where a phase begins that names no schedule; optimizer.lr alone names one.
TEST(LrSchedule, JumpsOnlyWhereAPhaseNamesOne) {
  expect_rates(
      "[optimizer]\nlr = 1.0\n[schedule]\ndecay = 'linear'\nwarmup_steps = 2\nmin_lr_ratio = 0.0\n"
      "[[phase]]\nname = 'a'\nsteps = 4\n"
      "[[phase]]\nname = 'b'\nsteps = 1\noptimizer.weight_decay = 0.0\n"
      "[[phase]]\nname = 'c'\nsteps = 5\n"
      "[[phase]]\nname = 'd'\nsteps = 3\noptimizer.lr = 4.0\n"
      "[[phase]]\nname = 'e'\nsteps = 3\n",
      {0.5, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0.0, 2.0, 4.0, 3.0, 2.0, 1.0, 0.0});
}

// "Attention is all you need": factor * C^-0.5 * min(t^-0.5, t * warmup^-1.5). Peaks: 512 channels and 4000 steps, and
// twice that for 8000 steps.
TEST(LrSchedule, InverseSqrtIsNoams) {
  struct Case {
    double factor, warmup, peak;
  };
  for (const Case& each : {Case{1.0, 4000, 6.987712e-4}, Case{2.0, 8000, 9.882118e-4}}) {
    const auto paper = [&](double t) {
      return each.factor * std::pow(512.0, -0.5) *
             std::min(std::pow(t, -0.5), t * std::pow(each.warmup, -1.5));
    };
    const LrSchedule schedule{.decay = "inverse_sqrt",
                              .lr = each.factor / std::sqrt(512.0 * each.warmup),
                              .steps = 100000,
                              .warmup_steps = static_cast<int64_t>(each.warmup)};
    EXPECT_NEAR(schedule.at(schedule.warmup_steps), each.peak, 5e-11);
    for (const int64_t step : {1, 2, 399, 3999, 4000, 4001, 7999, 8000, 8001, 50000, 100000, 300000})
      EXPECT_NEAR(schedule.at(step) / paper(static_cast<double>(step)), 1.0, 1e-12) << step;
  }
}

// Without a warm-up it begins at lr and falls with the root of the step.
TEST(LrSchedule, InverseSqrtNeedsNoWarmup) {
  const LrSchedule schedule{.decay = "inverse_sqrt", .lr = 0.5, .warmup_steps = 0};
  EXPECT_DOUBLE_EQ(schedule.at(1), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(25), 0.1);
}

// T5: 1 / sqrt(max(step, 10^4)), so 0.01 for 10^4 steps.
TEST(LrSchedule, AFlatWarmupMakesItThatOfT5) {
  const LrSchedule schedule{
      .decay = "inverse_sqrt", .lr = 0.01, .warmup_steps = 10000, .warmup_init_ratio = 1.0};
  for (const int64_t step : {1, 2, 777, 9999, 10000, 10001, 65536, 524288})
    EXPECT_NEAR(schedule.at(step) * std::sqrt(std::max(static_cast<double>(step), 1e4)), 1.0, 1e-12) << step;
}

TEST(LrSchedule, AWarmupMayBeginAboveZero) {
  LrSchedule schedule = make("constant");
  schedule.warmup_init_ratio = 0.5;
  for (int64_t step = 1; step <= 10; ++step)
    EXPECT_DOUBLE_EQ(schedule.at(step), 0.5 + 0.05 * static_cast<double>(step));
}

// lr - low is multiplied by the share of steps that is left, to the power.
TEST(LrSchedule, PolynomialFallsWithItsPower) {
  LrSchedule schedule = make("polynomial");
  for (int64_t step = 1; step <= 120; ++step) EXPECT_NEAR(schedule.at(step), make("linear").at(step), 1e-15);
  schedule.power = 3.0;
  EXPECT_DOUBLE_EQ(schedule.at(10), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(55), 0.1 + 0.9 / 8);
  EXPECT_DOUBLE_EQ(schedule.at(100), 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(120), 0.1);
  schedule.power = 0.5;
  EXPECT_DOUBLE_EQ(schedule.at(55), 0.1 + 0.9 * std::sqrt(0.5));
}

// Two phases, each with a schedule of its own, which counts from its phase.
TEST(LrSchedule, NewShapesBeginAnewWithAPhase) {
  expect_rates(
      "[optimizer]\nlr = 1.0\n[schedule]\ndecay = 'inverse_sqrt'\nwarmup_steps = 1\n"
      "[[phase]]\nname = 'a'\nsteps = 4\n"
      "[[phase]]\nname = 'b'\nsteps = 4\nschedule.decay = 'polynomial'\nschedule.power = 2.0\n"
      "schedule.warmup_steps = 0\nschedule.min_lr_ratio = 0.0\n",
      {1.0, std::sqrt(1.0 / 2), std::sqrt(1.0 / 3), 0.5, 9.0 / 16, 0.25, 1.0 / 16, 0.0});
}

TEST(LrSchedule, UnknownDecayIsAnError) {
  EXPECT_THROW(make("cosinus").at(50), Error);
}

TEST(LossScale, StaysOneWhereItIsNotDynamic) {
  LossScale scale;
  EXPECT_TRUE(scale.update(true));
  EXPECT_TRUE(scale.update(false));
  EXPECT_EQ(scale.scale, 1.0);
}

TEST(LossScale, HalvesOnOverflowAndDoublesAfterAWindow) {
  LossScale scale{.scale = 1024.0, .good_steps = 0, .dynamic = true, .window = 3};
  EXPECT_FALSE(scale.update(false));
  EXPECT_EQ(scale.scale, 512.0);
  EXPECT_TRUE(scale.update(true));
  EXPECT_TRUE(scale.update(true));
  EXPECT_EQ(scale.scale, 512.0);
  EXPECT_TRUE(scale.update(true));
  EXPECT_EQ(scale.scale, 1024.0);
  EXPECT_EQ(scale.good_steps, 0);
}

}  // namespace
}  // namespace athanor::tests::schedule_test
