// How a job ends: as it is asked to, when its work is done, or because it cannot go on, without processes.
#include "athanor/launch/master.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "master_play.h"

namespace athanor::tests::master_end_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(Master, StopIsPassedOnAndSavedAsInterrupted) {
  Play play(Play::elastic(2));
  play.go(2, 9);
  play.master.stop(SIGTERM, false, play.now);
  EXPECT_THAT(play.wanted(), ElementsAre("signal 0 15", "signal 1 15"));
  play.exit(1, 75);
  play.exit(0, 75);
  EXPECT_TRUE(play.master.done());
  EXPECT_EQ(play.master.verdict({}).exit_code, 75);
}

// The world that is being formed is the one that saves.
TEST(Master, StopWhileRanksMeet) {
  Play play(Play::elastic(3));
  play.go(3, 9);
  play.kill(1);
  play.kill(3);
  play.ready({0});
  play.wanted();
  play.master.stop(SIGINT, false, play.now);
  // The new process is started at once, and hears of it when it can take it.
  EXPECT_THAT(play.wanted(), ElementsAre("signal 0 2", "signal 2 2", "start 4 as 1"));
  play.master.hello(4, play.now);
  EXPECT_THAT(play.wanted(), ElementsAre("stop 4 2"));
  play.ready({4, 2});
  EXPECT_THAT(play.wanted(), ElementsAre("meet 1: 0 4(g0: 1) 2"));
  for (int worker : {0, 2, 4}) play.exit(worker, 75);
  EXPECT_TRUE(play.master.done());
  EXPECT_EQ(play.master.verdict({}).exit_code, 75);
}

// It could not take a signal before it says hello: it would die of it.
TEST(Master, StopWhileANewProcessStarts) {
  Play play(Play::elastic(2));
  play.go(2, 9);
  play.kill(1);
  play.wanted();
  play.master.stop(SIGTERM, false, play.now);
  EXPECT_THAT(play.wanted(), ElementsAre("signal 0 15"));
  play.ready({2});
  EXPECT_THAT(play.wanted(), ElementsAre("stop 2 15"));
}

TEST(Master, ASecondStopKills) {
  Play play(Play::elastic(2));
  play.go(2, 9);
  play.master.stop(SIGINT, false, play.now);
  play.wanted();
  play.master.stop(SIGINT, true, play.now);
  EXPECT_THAT(play.wanted(), ElementsAre("signal 0 9", "signal 1 9"));
  play.kill(0);
  play.kill(1);
  EXPECT_TRUE(play.master.done());
  EXPECT_EQ(play.master.verdict({}).exit_code, 1);
  EXPECT_EQ(play.master.verdict({}).message, "interrupted by signal 2 (SIGINT) and killed");
}

TEST(Master, RanksThatDieOfTheOperatorsSignalAreNotStartedAgain) {
  Play play(Play::elastic(2));
  play.go(2, 9);
  play.master.stop(SIGINT, false, play.now);
  play.wanted();
  play.kill(1, SIGINT);
  play.ready({0});
  EXPECT_THAT(play.wanted(), ElementsAre("break 1", "end 0"));
  play.exit(0, 1);
  EXPECT_EQ(play.master.verdict({}).message, "interrupted by signal 2 (SIGINT)");
}

TEST(Master, StopBeforeTheFirstWorld) {
  Play play(Play::elastic(2));
  play.wanted();
  play.master.hello(0, play.now);
  play.master.stop(SIGTERM, false, play.now);
  EXPECT_THAT(play.wanted(), ElementsAre("signal 0 15", "signal 1 15"));
  play.exit(1, 75);
  play.ready({0});
  EXPECT_THAT(play.wanted(), ElementsAre("end 0"));  // nobody will come
  play.exit(0, 1);
  EXPECT_EQ(play.master.verdict({}).exit_code, 75);
}

TEST(Master, WhenRankZeroHasEndedWellTheRunIsSaved) {
  for (const int code : {0, 75}) {
    Play play(Play::elastic(3));
    play.go(3, 9);
    play.exit(0, code);
    play.kill(1);
    EXPECT_THAT(play.wanted(), ElementsAre("leave 0"));
    EXPECT_EQ(play.last_said(), "rank 1 was killed by signal 9 after the run had been saved");
    play.ready({2}, "rank 1 was lost");
    EXPECT_THAT(play.wanted(), ElementsAre("end 2"));
    play.exit(2, 1);
    EXPECT_TRUE(play.master.done());
    EXPECT_EQ(play.master.verdict({}).exit_code, code);
  }
  Play play(Play::elastic(3));  // the death comes first
  play.go(3, 9);
  play.kill(1);
  play.ready({2});
  play.exit(0, 0);
  play.master.hello(3, play.now);
  EXPECT_THAT(play.wanted(), ElementsAre("break 1", "start 3 as 1", "leave 0", "end 2", "end 3"));
  play.exit(2, 1);
  play.pass(2000);
  EXPECT_THAT(play.wanted(), ElementsAre("signal 3 9"));
  play.kill(3);
  EXPECT_TRUE(play.master.done());
  EXPECT_EQ(play.master.verdict({}).exit_code, 0);
}

TEST(Master, RanksThatWereToJoinAreSentAwayAtTheEnd) {
  Play play(Play::elastic(2, 10, 1, 4));
  play.go(2, 9);
  EXPECT_EQ(play.master.scale(4, play.now), "");
  play.ready({2});
  play.wanted();
  play.exit(0, 0);
  play.exit(1, 0);
  EXPECT_THAT(play.wanted(), ElementsAre("leave 0", "end 2", "leave 1"));
  play.exit(2, 1);
  play.master.hello(3, play.now);
  EXPECT_THAT(play.wanted(), ElementsAre("end 3"));
  play.kill(3);
  EXPECT_TRUE(play.master.done());
  EXPECT_EQ(play.master.verdict({}).exit_code, 0);
}

TEST(Master, ARankThatThoughtAllWasOverIsNeededOnceMore) {
  Play play(Play::elastic(2));
  play.go(2, 9);
  play.exit(1, 0);
  play.kill(0);
  EXPECT_THAT(play.wanted(), ElementsAre("leave 1", "break 0", "start 2 as 0", "start 3 as 1"));
  play.ready({2, 3});
  EXPECT_THAT(play.wanted(), ElementsAre("meet 1: 2(g0: 0) 3(g0: 1)"));
}

TEST(Master, RanksThatEndBeforeTheyMeet) {
  Play alone(Play::elastic(2));  // a command that never meets
  alone.exit(0, 0);
  alone.exit(1, 0);
  EXPECT_TRUE(alone.master.done());
  EXPECT_EQ(alone.master.verdict({}).exit_code, 0);
  Play fixed(Play::elastic(2, 0));
  fixed.wanted();
  fixed.exit(1, 0);
  fixed.ready({0});
  EXPECT_THAT(fixed.wanted(), ElementsAre("end 0"));
  Play play(Play::elastic(2, 10, 2));
  play.wanted();
  int worker = 1;
  for (const int wait : {0, 100}) {
    play.exit(worker, 0);
    play.ready({0});
    play.pass(wait);
    EXPECT_THAT(play.wanted(), ElementsAre(fmt::format("start {} as 1", ++worker)));
  }
  play.exit(worker, 0);
  EXPECT_THAT(play.wanted(), ElementsAre("end 0"));
  play.exit(0, 1);
  EXPECT_EQ(play.master.verdict({}).exit_code, 1);
  EXPECT_THAT(play.master.verdict({}).message, HasSubstr("3 times before the first step"));
}

TEST(Master, WhatNobodyUnderstandsEndsTheJob) {
  Play play(Play::elastic(2));
  play.wanted();
  play.master.refused(1, "control message 'hello': version: got 2, expected 1", play.now);
  EXPECT_THAT(play.wanted(), ElementsAre("signal 1 9"));
  play.kill(1);
  play.ready({0});
  EXPECT_THAT(play.wanted(), ElementsAre("end 0"));
  play.exit(0, 1);
  EXPECT_THAT(play.master.verdict({}).what, HasSubstr("version: got 2"));
}

TEST(Master, RanksThatFindTheirWorldThemselves) {
  Play play({.num_ranks = 2, .first_rank = 2, .grace_ns = 1000 * kMs, .meet = false});
  EXPECT_THAT(play.wanted(), ElementsAre("start 0 as 0", "start 1 as 1"));
  play.exit(0, 0);
  play.kill(1);
  EXPECT_THAT(play.wanted(), ElementsAre("leave 0", "break 1"));
  EXPECT_EQ(play.master.verdict({}).message, "rank 3 was killed by signal 9");
}

// A rank that is done ends while rank 0 still works; then another one dies, and all are needed once more.
TEST(Master, ARankThatHadEndedWellIsStartedAgainWithThatCause) {
  Play play(Play::elastic(3, 10));
  play.go(3, 9);
  play.exit(2, 0);
  EXPECT_THAT(play.wanted(), Not(Contains(HasSubstr("start"))));
  play.kill(1);
  play.pass(1);
  play.take();
  std::vector<std::pair<int, std::string>> restarts;
  for (const JobEvent& event : play.events)
    if (event.event == "restart") restarts.emplace_back(event.rank, event.cause);
  EXPECT_THAT(restarts, UnorderedElementsAre(Pair(1, ""),
                                             Pair(2, "it had ended well, and the others need it once more")));
}

}  // namespace
}  // namespace athanor::tests::master_end_test
