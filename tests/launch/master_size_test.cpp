// A job that becomes smaller or larger, by itself or as its operator wants it, without processes.
#include "athanor/launch/master.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "master_play.h"

namespace athanor::tests::master_size_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Master, ShrinksWhenARankCannotBeKept) {
  Play play(Play::elastic(3, 1, /*min_ranks=*/2));
  play.go(3, 41);
  play.kill(0);
  play.ready({1, 2, 3});
  play.begun(1, 41);
  play.wanted();
  play.kill(3);  // the second restart is one too many
  EXPECT_EQ(play.last_said(),
            "rank 0 was killed by signal 9, all 1 restarts are used up: the job goes on with 2 ranks");
  play.ready({1, 2});
  play.exit(2, 1);  // it was asked to leave
  play.ready({4});
  EXPECT_THAT(play.wanted(), ElementsAre("break 0", "end 2", "start 4 as 0", "meet 2: 4(g1: 0,2) 1"));
  play.begun(4, 41);
  EXPECT_THAT(play.last_said(), HasSubstr("generation 2: goes on with 2 ranks after step 41"));
  EXPECT_THAT(play.names_of_events(), Contains("shrink"));
  play.exit(4, 0);
  play.exit(1, 0);
  EXPECT_TRUE(play.master.done());
  EXPECT_EQ(play.master.verdict({}).exit_code, 0);
}

TEST(Master, TheLastRankIsNotReplacedWhenItCannotBeKept) {
  Play play(Play::elastic(2, 1));
  play.go(2, 41);
  play.kill(1);
  play.ready({0, 2});
  play.kill(2);
  play.wanted();
  play.ready({0});
  EXPECT_THAT(play.wanted(), ElementsAre("meet 2: 0(g0: 1)"));
  play.fail(0, Cause::config, 2);  // such a layout needs two
  const Verdict verdict = play.master.verdict({});
  EXPECT_EQ(verdict.exit_code, 1);
  EXPECT_EQ(
      verdict.message,
      "rank 1 was killed by signal 9, all 1 restarts are used up; with 1 ranks, rank 0 exited with code 2");
}

TEST(Master, ScalesDown) {
  Play play(Play::elastic(4, 10, 2));
  play.go(4, 9);
  EXPECT_EQ(play.master.scale(2, play.now), "");
  EXPECT_THAT(play.wanted(), ElementsAre("end 2", "end 3", "break 2"));
  play.ready({0, 2, 1});  // rank 2 need not be told again
  EXPECT_THAT(play.wanted(), ElementsAre("meet 1: 0(g0: 2,3) 1"));
  play.exit(2, 1);
  play.kill(3, SIGTERM);
  play.begun(0, 9);
  EXPECT_THAT(play.last_said(), HasSubstr("generation 1: goes on with 2 ranks after step 9"));
  play.exit(0, 0);
  play.exit(1, 0);
  EXPECT_TRUE(play.master.done());
  EXPECT_EQ(play.master.verdict({}).exit_code, 0);
  EXPECT_THAT(play.names_of_events(), ElementsAre("start", "shrink", "recovered"));
}

// Those who come start while the others train.
TEST(Master, ScalesUp) {
  Play play(Play::elastic(2, 10, 1, /*max_ranks=*/4));
  play.go(2, 9);
  EXPECT_EQ(play.master.scale(4, play.now), "");
  EXPECT_THAT(play.wanted(), ElementsAre("start 2 as 2", "start 3 as 3"));
  EXPECT_THAT(play.master.scale(3, play.now), HasSubstr("on its way to 4 ranks"));
  play.ready({3});
  play.kill(2);  // disturbs nobody
  EXPECT_THAT(play.wanted(), ElementsAre("start 4 as 2"));
  play.step(0, 12);
  play.ready({4});
  EXPECT_THAT(play.wanted(), ElementsAre("break 1"));
  play.ready({0, 1});
  EXPECT_THAT(play.wanted(), ElementsAre("meet 1: 0 1 4 3"));
  play.begun(3, 12);
  EXPECT_EQ(play.last_said(), "generation 1: goes on with 4 ranks after step 12, 0.00 s after the request");
}

TEST(Master, GivesUpGrowingWhenNewRanksFail) {
  Play play(Play::elastic(2, 10, 1, 4));
  play.go(2, 9);
  EXPECT_EQ(play.master.scale(4, play.now), "");
  play.ready({3});
  play.kill(2);
  play.pass(5000);
  play.kill(4);
  play.pass(5000);
  play.kill(5);
  EXPECT_THAT(play.last_said(), HasSubstr("the job stays at 2 ranks"));
  EXPECT_EQ(play.master.size(), 2);
  EXPECT_THAT(play.wanted(),
              ElementsAre("start 2 as 2", "start 3 as 3", "start 4 as 2", "start 5 as 2", "end 3"));
  play.step(0, 10);
  play.kill(1);  // as ever
  EXPECT_THAT(play.wanted(), ElementsAre("break 1", "start 6 as 1"));
}

TEST(Master, RefusesToScaleInOneSentence) {
  Play play(Play::elastic(3, 10, 2));
  EXPECT_THAT(play.master.scale(2, play.now), HasSubstr("the ranks are meeting"));
  play.go(3, 9);
  EXPECT_EQ(play.master.scale(1, play.now),
            "got 1 ranks, expected launch.min_ranks = 2 to launch.max_ranks = 3");
  EXPECT_THAT(play.master.scale(4, play.now), HasSubstr("got 4 ranks"));
  EXPECT_EQ(play.master.scale(3, play.now), "");
  EXPECT_THAT(play.wanted(), IsEmpty());
  play.kill(0);
  EXPECT_THAT(play.master.scale(2, play.now), HasSubstr("the ranks are meeting"));
  Play fixed(Play::elastic(3, 0));
  fixed.go(3, 9);
  EXPECT_THAT(fixed.master.scale(2, fixed.now), HasSubstr("max_restarts is 0"));
}

}  // namespace
}  // namespace athanor::tests::master_size_test
