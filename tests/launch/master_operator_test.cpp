// What the operator wants of a job and is told of it, without processes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "athanor/launch/master.h"
#include "master_play.h"

namespace athanor::tests::master_operator_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of a FormWorld: what its members are ordered.
std::string order_of(Play& play) {
  for (const MasterAction& action : play.master.take_actions())
    if (const auto* form = std::get_if<FormWorld>(&action))
      return fmt::format("save {}, back to {}", form->order.save, form->order.rollback_step);
  return "no world";
}

std::string setting_of(Play& play) {
  for (const MasterAction& action : play.master.take_actions())
    if (const auto* form = std::get_if<FormWorld>(&action)) return form->order.set;
  return "no world";
}

// With the first step it is part of the state of all ranks; one that dies before takes it along.
TEST(MasterOperator, ASettingIsGivenUntilAStepIsDoneWithIt) {
  Play play(Play::elastic(2));
  play.go(2, 9);
  EXPECT_EQ(play.master.order({.set = "optimizer.lr=1e-3"}, play.now), "");
  play.ready({0, 1});
  EXPECT_EQ(setting_of(play), "optimizer.lr=1e-3");
  play.begun(0, 9);
  EXPECT_THAT(play.master.order({.save = true}, play.now), HasSubstr("no step has been done"));
  play.kill(1);
  play.ready({0, 2});
  EXPECT_EQ(setting_of(play), "optimizer.lr=1e-3");
  play.begun(0, 9);
  play.master.progress(0, {.generation = play.master.generation(), .step = 10});
  play.kill(2);
  play.ready({0, 3});
  EXPECT_EQ(setting_of(play), "");
}

TEST(MasterOperator, AnOrderIsGivenUntilItIsCarriedOut) {
  Play play(Play::elastic(2));
  play.go(2, 9);
  EXPECT_EQ(play.master.order({.save = true}, play.now), "");
  EXPECT_THAT(play.wanted(), ElementsAre("break 0"));
  EXPECT_THAT(play.master.order({.save = true}, play.now), HasSubstr("the ranks are meeting"));
  play.master.saved(0, {.generation = 0, .step = 9, .path = "of the world before"});
  play.ready({0, 1});
  EXPECT_EQ(order_of(play), "save true, back to -1");
  play.begun(0, 9);
  play.kill(1);  // before it has saved
  play.ready({0, 2});
  EXPECT_EQ(order_of(play), "save true, back to -1");
  play.begun(0, 9);
  play.master.saved(0, {.generation = 2, .step = 9, .path = "step 9"});
  play.kill(2);
  play.pass(1000);
  play.ready({0, 3});
  EXPECT_EQ(order_of(play), "save false, back to -1");
}

TEST(MasterOperator, GoesBackOnce) {
  Play play(Play::elastic(2, /*max_restarts=*/1));
  play.go(2, 90);
  EXPECT_EQ(play.master.order({.rollback_step = 40}, play.now), "");
  play.ready({0, 1});
  EXPECT_EQ(order_of(play), "save false, back to 40");
  play.kill(1);  // before it has begun
  play.ready({0, 2});
  EXPECT_EQ(order_of(play), "save false, back to 40");
  play.begun(0, 40);
  EXPECT_EQ(play.master.step(), 40);
  EXPECT_THAT(play.names_of_events(), Contains("recovered"));
  play.wanted();
  play.kill(2);  // restarts of the steps that count as not done are given back
  EXPECT_THAT(play.last_said(), HasSubstr("at step 40: started again"));
  play.ready({0, 3});
  EXPECT_EQ(order_of(play), "save false, back to -1");
}

TEST(MasterOperator, OrdersCostNoRestart) {
  Play play(Play::elastic(2, /*max_restarts=*/1));
  play.go(2, 9);
  for (int time = 0; time < 5; ++time) {
    EXPECT_EQ(play.master.order({.save = true}, play.now), "");
    play.ready({0, 1});
    play.begun(0, 9);
    play.master.saved(0, {.generation = play.master.generation(), .step = 9, .path = "step 9"});
  }
  play.kill(1);
  EXPECT_THAT(play.wanted(), Contains("start 2 as 1"));
}

TEST(MasterOperator, SaysHowTheJobIs) {
  using control::RankState;
  Play play(Play::elastic(2));
  EXPECT_EQ(play.master.status(play.now).goodput, 0.0);
  EXPECT_EQ(play.master.status(play.now).ranks.at(1).state, RankState::starting);
  play.go(2, 9);
  play.now += 3000 * kMs;
  control::JobStatus job = play.master.status(play.now);
  EXPECT_EQ(job.step, 9);
  EXPECT_EQ(job.generation, 0);
  EXPECT_EQ(job.goodput, 1.0);
  EXPECT_EQ(job.ranks.at(0).state, RankState::training);
  EXPECT_EQ(job.ranks.at(0).step, 9);
  EXPECT_EQ(job.ranks.at(1).step, -1);
  play.kill(1);
  EXPECT_EQ(play.master.worker_of(1), 2);
  play.now += 1000 * kMs;
  job = play.master.status(play.now);
  EXPECT_EQ(job.goodput, 0.75);
  EXPECT_EQ(job.ranks.at(0).state, RankState::meeting);
  EXPECT_EQ(job.ranks.at(1).state, RankState::starting);
  play.ready({0, 2});
  EXPECT_EQ(play.master.status(play.now).ranks.at(1).state, RankState::meeting);
  play.begun(0, 9);
  play.now += 4000 * kMs;
  EXPECT_EQ(play.master.status(play.now).goodput, 0.875);
  play.exit(0, 0);
  EXPECT_EQ(play.master.status(play.now).ranks.at(0).state, RankState::ended);
  EXPECT_EQ(play.master.worker_of(0), -1);
  EXPECT_EQ(play.master.worker_of(2), -1);
}

// One that hangs before it says that it is here is not waited for without end.
TEST(MasterOperator, AReplacementThatDoesNotComeUpIsReplaced) {
  Play play(Play::elastic(2));
  play.go(2, 9);
  play.kill(1);
  play.ready({0});
  play.wanted();
  play.pass(59'000);
  EXPECT_THAT(play.wanted(), IsEmpty());
  play.pass(1000);
  EXPECT_THAT(play.wanted(), ElementsAre("signal 2 9"));
  EXPECT_EQ(play.last_said(), "rank 1 did not come up within 60 s: killed");
  play.kill(2);
  play.pass(100);
  EXPECT_THAT(play.wanted(), ElementsAre("start 3 as 1"));
  play.ready({3});
  play.pass(120'000);
  EXPECT_THAT(play.wanted(), ElementsAre("meet 1: 0 3(g0: 1)"));
}

}  // namespace
}  // namespace athanor::tests::master_operator_test
