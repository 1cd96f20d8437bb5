// What the guards take for unusual, when they speak, and which steps they have undone.
#include "athanor/run/guards.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "athanor/base/error.h"
#include "athanor/base/philox.h"
#include "athanor/data/sampler.h"

namespace athanor::tests::guards_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// A loss that falls, with noise, as that of a small model does.
double usual_loss(int64_t step, uint64_t seed = 1) {
  const double noise = static_cast<double>(RandomStream(seed, "noise").word(static_cast<uint64_t>(step), 0)) /
                       static_cast<double>(std::numeric_limits<uint32_t>::max());
  return 3.0 + 6.0 * std::exp(-static_cast<double>(step) / 40.0) + 0.4 * noise;
}

RollingSpread filled(Scale scale, int64_t count = RollingSpread::kEnough) {
  RollingSpread spread(scale, scale == Scale::linear ? 1.1 : 4.0);
  for (int64_t step = 1; step <= count; ++step) spread.add(step, 1.0 + 0.01 * static_cast<double>(step % 5));
  return spread;
}

TEST(RollingSpread, WhatIsFarAbove) {
  const RollingSpread linear = filled(Scale::linear), logarithmic = filled(Scale::logarithmic);
  EXPECT_DOUBLE_EQ(linear.median(), 1.02);
  EXPECT_FALSE(linear.is_far_above(1.12));  // less than a tenth
  EXPECT_TRUE(linear.is_far_above(1.2));
  EXPECT_FALSE(linear.is_far_above(0.1));
  EXPECT_FALSE(logarithmic.is_far_above(4.0));
  EXPECT_TRUE(logarithmic.is_far_above(4.2));
  EXPECT_FALSE(logarithmic.is_far_above(0.0));
  for (const double never : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(linear.is_far_above(never));
    EXPECT_FALSE(logarithmic.is_far_above(never));
  }
}

TEST(RollingSpread, NeedsEnoughValuesAndForgetsOldOnes) {
  EXPECT_FALSE(filled(Scale::linear, RollingSpread::kEnough - 1).is_far_above(100.0));
  RollingSpread spread = filled(Scale::linear);
  spread.add(100, 5.0);
  EXPECT_FALSE(spread.is_far_above(4.9));  // it has been there
  EXPECT_TRUE(spread.is_far_above(5.1));   // and moves the rest little
  for (int64_t step = 101; step < 101 + static_cast<int64_t>(RollingSpread::kWindow); ++step)
    spread.add(step, 1.0);
  EXPECT_EQ(spread.values().size(), RollingSpread::kWindow);
  EXPECT_TRUE(spread.is_far_above(4.9));
  spread.forget_after(100);
  EXPECT_THAT(spread.values(), IsEmpty());
  EXPECT_TRUE(std::isnan(spread.median()));
}

// One value in ten is of another kind: that is usual. And a value that falls fast is judged by what it has come to.
TEST(RollingSpread, WhatIsUsualMayBeWildAndMayFall) {
  RollingSpread wild(Scale::linear, 1.1), falling(Scale::linear, 1.1);
  for (int64_t step = 1; step <= 60; ++step) {
    wild.add(step, step % 10 == 0 ? 6.0 : 3.0 + 0.1 * static_cast<double>(step % 3));
    falling.add(step, 9.0 * std::exp(-static_cast<double>(step) / 10.0));
  }
  EXPECT_FALSE(wild.is_far_above(6.5));
  EXPECT_TRUE(falling.is_far_above(5.0));
}

struct Watched {
  explicit Watched(GuardConfig config = {}) : guards(config) {}
  Guards::Verdict step(double loss, double norm = 1.0, std::optional<double> update = {}, double lr = 0.1) {
    ++at;
    return guards.after(
        {.step = at, .channel_loss = {{"en", loss}}, .grad_norm = norm, .lr = lr, .last_update = update},
        first_step);
  }
  void usual(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) EXPECT_TRUE(is_quiet(step(usual_loss(at + 1), 1.0, 0.01))) << at;
  }
  static bool is_quiet(const Guards::Verdict& verdict) {
    return verdict.warnings.empty() && verdict.alarms.empty() && !verdict.first_undone;
  }
  Guards guards;
  int64_t at = 0, first_step = 1;
};

TEST(Guards, AreQuietWhereNothingHappens) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Guards guards{GuardConfig{.loss_spike = "act", .grad_norm = "act", .update_size = "act"}};
    for (int64_t step = 1; step <= 400; ++step) {
      const double wave = usual_loss(step, seed);
      const Guards::Verdict verdict =
          guards.after({.step = step,
                        .channel_loss = {{"en", wave}},
                        .grad_norm = 0.5 + wave - 3.0,
                        .lr = 1e-3 * std::min(1.0, static_cast<double>(step) / 100),
                        .last_update = 1e-4 * std::min(1.0, static_cast<double>(step - 1) / 100)},
                       1);
      ASSERT_TRUE(Watched::is_quiet(verdict)) << seed << " " << step;
    }
  }
}

TEST(Guards, WarnOnceAndAgainAfterAWhile) {
  Watched run;
  run.usual(60);
  const Guards::Verdict first = run.step(12.0, 1.0, 0.01);
  EXPECT_THAT(first.warnings,
              ElementsAre(AllOf(HasSubstr("step 61: the loss of channel 'en' is 12, far above the "
                                          "usual "))));
  EXPECT_THAT(first.alarms, ElementsAre(Pair("loss en", 12.0)));
  EXPECT_FALSE(first.first_undone);
  const Guards::Verdict second = run.step(13.0, 1.0, 0.01);
  EXPECT_THAT(second.warnings, IsEmpty());
  EXPECT_THAT(second.alarms, ElementsAre(Pair("loss en", 13.0)));
  run.usual(40);
  EXPECT_THAT(run.step(14.0).warnings, ElementsAre(HasSubstr("step 103")));
}

TEST(Guards, EachIsSetOnItsOwn) {
  const auto alarms = [](const GuardConfig& config) {
    Watched run(config);
    run.usual(60);
    std::vector<std::string> names;
    for (const auto& [name, value] : run.step(12.0, 20.0, 0.5).alarms) names.push_back(name);
    return names;
  };
  EXPECT_THAT(alarms({}), ElementsAre("loss en", "grad_norm", "update_size"));
  EXPECT_THAT(alarms({.loss_spike = "off"}), ElementsAre("grad_norm", "update_size"));
  EXPECT_THAT(alarms({.grad_norm = "off"}), ElementsAre("loss en", "update_size"));
  EXPECT_THAT(alarms({.update_size = "off"}), ElementsAre("loss en", "grad_norm"));
}

// The size is that of the update of the step before, and beside that step's learning rate.
TEST(Guards, UpdatesAreOfTheStepBefore) {
  Watched run({.update_size = "act"});
  run.usual(60);
  EXPECT_TRUE(Watched::is_quiet(run.step(3.2, 1.0, 0.01, 0.9)));
  EXPECT_TRUE(Watched::is_quiet(run.step(3.2, 1.0, 0.09)));  // as its learning rate was
  const Guards::Verdict verdict = run.step(3.2, 1.0, 0.09);
  EXPECT_EQ(verdict.first_undone, 62);
  EXPECT_THAT(verdict.why,
              HasSubstr("at step 62 the size of the update beside the weights is 0.09, far above the "
                        "usual 0.01"));
}

TEST(Guards, ActOnTheLastStepsOfThePhaseSoManyTimes) {
  Watched run({.loss_spike = "act", .rollback_steps = 3, .max_rollbacks = 2});
  run.usual(60);
  Guards::Verdict verdict = run.step(12.0);
  EXPECT_EQ(verdict.first_undone, 59);
  EXPECT_THAT(verdict.warnings, IsEmpty());  // going back says it
  run.guards.forget_after(58);
  run.at = 58;
  run.first_step = 59;
  run.usual(1);
  EXPECT_EQ(run.step(12.0).first_undone, 59);
  run.guards.forget_after(58);
  run.at = 58;
  verdict = run.step(12.0);
  EXPECT_FALSE(verdict.first_undone);
  EXPECT_THAT(verdict.warnings,
              ElementsAre(HasSubstr("went back guard.max_rollbacks = 2 times and goes on")));
}

TEST(Guards, TextHasAllOfThem) {
  Watched run({.loss_spike = "act"});
  run.usual(60);
  run.step(12.0);
  run.guards.repeat(62);
  run.guards.decisions = std::vector<Decision>{{61, SkipBatches{1}, "why"}};
  Guards other{GuardConfig{.loss_spike = "act"}};
  EXPECT_EQ(other.num_values(), 0);
  other.take(run.guards.text());
  EXPECT_EQ(other.text(), run.guards.text());
  EXPECT_EQ(other.num_values(), run.guards.num_values());
  EXPECT_TRUE(other.is_repeated(62));
  EXPECT_FALSE(other.is_repeated(61));
  EXPECT_THROW(other.take("{}"), Error);
}

// A step that goes back trains on the batch after those that the undone ones had.
TEST(Decisions, UndoneStepsSkipTheirBatches) {
  const std::vector<Decision> before = {
      {4, SkipBatches{2}, "a"}, {9, SkipBatches{5}, "b"}, {11, SkipBatches{7}, "c"}};
  const std::vector<Decision> after = undo_steps(before, 9, 10, "a spike");
  EXPECT_THAT(after, ElementsAre(before[0], Decision{9, SkipBatches{7}, "a spike"}, before[2]));
  const auto batch_of = [](const std::vector<Decision>& list, int64_t step) {
    return Sampler({{"en", 1.0, 100}}, 1, 4, {.skips = skips_of(list)}).batch_of(step);
  };
  EXPECT_EQ(batch_of(after, 9), batch_of(before, 10) + 1);
  EXPECT_EQ(batch_of(after, 8), batch_of(before, 8));
  const std::vector<Decision> twice = undo_steps(after, 9, 9, "again");
  EXPECT_EQ(batch_of(twice, 9), batch_of(after, 9) + 1);
}

}  // namespace
}  // namespace athanor::tests::guards_test
