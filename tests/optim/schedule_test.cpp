#include "athanor/optim/schedule.h"

#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/optim/loss_scale.h"

namespace athanor::tests::schedule_test {
namespace {

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
  for (const char* decay : {"cosine", "linear", "constant", "wsd"}) {
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
  for (const char* decay : {"cosine", "linear", "constant", "wsd"})
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
