// Inputs and what they lead to, without processes.
#include "athanor/launch/master.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "master_play.h"

namespace athanor::tests::master_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Master, StartsAllAndLetsThemMeet) {
  Play play(Play::elastic(3));
  EXPECT_THAT(play.wanted(), ElementsAre("start 0 as 0", "start 1 as 1", "start 2 as 2"));
  play.ready({2, 0});
  EXPECT_THAT(play.wanted(), IsEmpty());
  play.ready({1});
  EXPECT_THAT(play.wanted(), ElementsAre("meet 0: 0 1 2"));
  play.begun(1, 0);
  EXPECT_THAT(play.wanted(), ElementsAre("release before 0"));
  play.begun(2, 0);
  EXPECT_THAT(play.wanted(), IsEmpty());
  for (int worker : {1, 0, 2}) play.exit(worker, 0);
  EXPECT_THAT(play.wanted(), ElementsAre("leave 1", "leave 0", "leave 2"));
  EXPECT_TRUE(play.master.done());
  EXPECT_EQ(play.master.verdict({}).exit_code, 0);
}

// The survivors keep process and rank; the new process is given its predecessor's slots, which are kept until the new
// generation has begun.
TEST(Master, ADeadRankIsStartedAgain) {
  for (const int victim : {0, 1, 2}) {
    Play play(Play::elastic(3));
    play.go(3, 41);
    play.kill(victim);
    EXPECT_THAT(play.wanted(),
                ElementsAre(fmt::format("break {}", victim), fmt::format("start 3 as {}", victim)));
    EXPECT_EQ(play.last_said(),
              fmt::format("rank {} was killed by signal 9 at step 41: started again", victim));
    for (int survivor : {0, 1, 2})
      if (survivor != victim) play.ready({survivor});
    EXPECT_THAT(play.wanted(), IsEmpty());
    play.pass(210);
    play.ready({3}, "the start");
    const auto name = [&](int rank) {
      return rank == victim ? fmt::format("3(g0: {})", rank) : fmt::format("{}", rank);
    };
    EXPECT_THAT(play.wanted(), ElementsAre(fmt::format("meet 1: {} {} {}", name(0), name(1), name(2))));
    play.begun(3, 40);
    EXPECT_THAT(play.wanted(), ElementsAre("release before 1"));
    EXPECT_EQ(play.last_said(), "generation 1: goes on after step 40, 0.21 s after the failure");
    EXPECT_THAT(play.names_of_events(), ElementsAre("start", "failure", "restart", "recovered"));
    EXPECT_EQ(play.events[3].lost_steps, 1);
    EXPECT_NEAR(play.events[3].recover_seconds, 0.21, 1e-9);
    EXPECT_EQ(play.events[1].cause, "was killed by signal 9");
    for (int worker : {0, 1, 2, 3})
      if (worker != victim) play.exit(worker, 0);
    EXPECT_TRUE(play.master.done());
    EXPECT_EQ(play.master.verdict({}).exit_code, 0);
  }
}

// Survivors may hear of it from each other before the master does.
TEST(Master, ReadyBeforeTheDeathIsTheSameFailure) {
  Play play(Play::elastic(2));
  play.go(2, 5);
  play.ready({0}, "rank 1 was lost");
  EXPECT_THAT(play.wanted(), ElementsAre("break 0"));
  play.kill(1);
  EXPECT_THAT(play.wanted(), ElementsAre("start 2 as 1"));
  play.ready({2});
  EXPECT_THAT(play.wanted(), ElementsAre("meet 1: 0 2(g0: 1)"));
  EXPECT_THAT(play.names_of_events(), ElementsAre("start", "failure", "restart"));
}

TEST(Master, SlotsOfEveryDeadProcessAreGivenUntilAGenerationBegins) {
  Play play(Play::elastic(3));
  play.go(3, 7);
  play.kill(1);
  play.wanted();
  play.kill(3);  // the one that took its place, before it met
  EXPECT_THAT(play.wanted(), IsEmpty());
  play.pass(100);
  EXPECT_THAT(play.wanted(), ElementsAre("start 4 as 1"));
  play.ready({0, 2, 4});
  EXPECT_THAT(play.wanted(), ElementsAre("meet 1: 0 4(g0: 1) 2"));
  play.kill(2);  // after they met
  play.kill(0);
  EXPECT_THAT(play.wanted(), ElementsAre("break 2"));
  play.pass(200);
  EXPECT_THAT(play.wanted(), ElementsAre("start 5 as 0", "start 6 as 2"));
  play.ready({4, 5, 6});  // rank 1 has what it was given
  EXPECT_THAT(play.wanted(), ElementsAre("meet 2: 5(g0: 0) 4 6(g0: 2)"));
  play.kill(5);
  play.pass(400);
  play.ready({4, 6, 7});
  EXPECT_THAT(play.wanted(), ElementsAre("break 0", "start 7 as 0", "meet 3: 7(g0: 0) 4 6"));
  play.begun(6, 7);
  play.step(6, 8);
  play.kill(4);
  play.ready({6, 7, 8});
  EXPECT_THAT(play.wanted(),
              ElementsAre("release before 3", "break 1", "start 8 as 1", "meet 4: 7 8(g3: 1) 6"));
}

TEST(Master, AllRanksAtOnce) {
  Play play(Play::elastic(3));
  play.go(3, 7);
  for (int worker : {2, 0, 1}) play.kill(worker);
  EXPECT_THAT(play.wanted(), ElementsAre("break 2", "start 3 as 2", "start 4 as 0", "start 5 as 1"));
  EXPECT_FALSE(play.master.done());
  play.ready({3, 4, 5});
  EXPECT_THAT(play.wanted(), ElementsAre("meet 1: 4(g0: 0) 5(g0: 1) 3(g0: 2)"));
}

TEST(Master, ABegunThatIsSaidAfterTheNextDeathCounts) {
  Play play(Play::elastic(2));
  play.ready({0, 1});
  play.kill(1);
  play.begun(0, 0);
  play.ready({0, 2});
  EXPECT_THAT(play.wanted(), Contains("meet 1: 0 2(g0: 1)"));
}

TEST(Master, DeathsBeforeTheFirstWorld) {
  Play play(Play::elastic(2));
  play.kill(1);
  EXPECT_THAT(play.wanted(), ElementsAre("start 0 as 0", "start 1 as 1", "start 2 as 1"));
  EXPECT_EQ(play.last_said(), "rank 1 was killed by signal 9 before the first step: started again");
  play.ready({0, 2});
  EXPECT_THAT(play.wanted(), ElementsAre("meet 0: 0 2"));
}

TEST(Master, WithoutRestartsAFailureEndsTheJob) {
  Play play(Play::elastic(3, 0));
  play.go(3, 7);
  play.kill(1);
  EXPECT_THAT(play.wanted(), ElementsAre("break 1"));
  play.ready({0});
  EXPECT_THAT(play.wanted(), ElementsAre("end 0"));
  play.exit(0, 1);
  play.pass(999);
  EXPECT_THAT(play.wanted(), IsEmpty());
  play.pass(1);
  EXPECT_THAT(play.wanted(), ElementsAre("signal 2 15", "signal 2 18"));
  play.pass(1000);
  EXPECT_THAT(play.wanted(), ElementsAre("signal 2 9", "signal 2 18"));
  play.kill(2);
  EXPECT_TRUE(play.master.done());
  const Verdict verdict = play.master.verdict({});
  EXPECT_EQ(verdict.exit_code, 1);
  EXPECT_EQ(verdict.message, "rank 1 was killed by signal 9");
  EXPECT_EQ(play.master.verdict(0).message, "rank 0 exited with code 1");  // whom the ranks blame
}

TEST(Master, WithoutRestartsOneThatWaitsForAnotherWorldIsToldAtOnce) {
  Play play(Play::elastic(2, 0));
  play.go(2, 7);
  play.ready({0}, "rank 1 was lost");
  EXPECT_THAT(play.wanted(), ElementsAre("end 0"));
  play.kill(1);
  play.exit(0, 1);
  EXPECT_EQ(play.master.verdict(1).message, "rank 1 was killed by signal 9");
}

TEST(Master, WhatWouldFailAgainEndsTheJob) {
  for (const auto& [cause, code] :
       {std::pair(Cause::config, 2), std::pair(Cause::error, 1), std::pair(Cause::not_finite, 1)}) {
    Play play(Play::elastic(2));
    play.go(2, 7);
    play.ready({0}, "rank 1 aborted");
    play.fail(1, cause, code);
    EXPECT_THAT(play.wanted(), ElementsAre("break 0", "end 0"));
    play.exit(0, 1);
    EXPECT_TRUE(play.master.done());
    const Verdict verdict = play.master.verdict(0);  // blame from before does not count
    EXPECT_EQ(verdict.exit_code, code);
    EXPECT_EQ(verdict.failed_rank, 1);
    EXPECT_EQ(verdict.what, "words");
  }
  for (const Cause cause : {Cause::io, Cause::peer, Cause::mismatch, Cause::exhausted}) {
    Play play(Play::elastic(2));
    play.go(2, 7);
    play.fail(1, cause);
    EXPECT_THAT(play.wanted(), ElementsAre("break 1", "start 2 as 1"));
  }
  Play silent(Play::elastic(2));  // without last words, as a wrong config before the agent was found
  silent.exit(0, 2);
  silent.exit(1, 2);
  EXPECT_EQ(silent.master.verdict({}).exit_code, 2);
}

TEST(Master, AnEndlessFailureIsNamed) {
  Play play(Play::elastic(2, 10, /*min_ranks=*/2));
  play.go(2, 41);
  int victim = 1;
  for (const int wait : {0, 100}) {
    play.kill(victim);
    play.pass(wait);
    play.ready({0, ++victim});
    play.begun(0, 41);
  }
  play.kill(victim);
  EXPECT_THAT(play.wanted(), Contains("end 0").Times(0));
  play.ready({0});
  EXPECT_THAT(play.wanted(), ElementsAre("end 0"));
  play.exit(0, 1);
  EXPECT_EQ(play.master.verdict({}).message, "rank 1 was killed by signal 9, 3 times at step 41");
}

TEST(Master, TheBudgetIsForTheJobAndFillsUpAgain) {
  Play play(Play::elastic(2, 2, 2));
  play.go(2, 10);
  int next = 2, ranks[] = {0, 1};
  const auto fail = [&](int rank) {
    play.kill(ranks[rank]);
    if (!play.master.done()) play.pass(5000);
    ranks[rank] = next++;
    play.ready({ranks[0], ranks[1]});
    play.begun(ranks[0], play.master.step());
  };
  fail(0);
  play.step(ranks[0], 11);
  fail(1);
  play.step(ranks[0], 99);
  play.step(ranks[0], 100);  // a hundred beyond the first that was known, 0
  play.wanted();
  fail(0);
  fail(1);
  EXPECT_THAT(play.wanted(), Contains(HasSubstr("meet 4")));
  play.kill(ranks[0]);
  play.ready({ranks[1]});
  play.exit(ranks[1], 1);
  EXPECT_EQ(play.master.verdict({}).message, "rank 0 was killed by signal 9, all 2 restarts are used up");
}

TEST(Master, BacksOffWhileNoStepIsCommitted) {
  Play play(Play::elastic(8, 100));
  play.go(8, 1);
  std::vector<int> workers = {0, 1, 2, 3, 4, 5, 6, 7};
  int next = 8;
  for (const int64_t delay_ms : {0, 100, 200, 400, 800, 1600, 3200, 5000, 5000}) {
    const auto rank = static_cast<size_t>(next % 8);  // another one each time
    play.kill(workers[rank]);
    workers[rank] = next++;
    if (delay_ms > 0) {
      EXPECT_EQ(play.master.next_tick_ns(), play.now + std::min<int64_t>(delay_ms, 2000) * kMs);
      for (int worker : workers)
        if (worker != workers[rank]) play.ready({worker});
      EXPECT_EQ(play.master.next_tick_ns(), play.now + delay_ms * kMs);
      play.wanted();
      play.pass(delay_ms - 1);
      EXPECT_THAT(play.wanted(), IsEmpty());
      play.pass(1);
    }
    EXPECT_THAT(play.wanted(), Contains(HasSubstr("start ")));
    for (int worker : workers) play.ready({worker});
    play.begun(workers[0], 1);
  }
  play.step(workers[0], 2);
  play.kill(workers[3]);
  EXPECT_THAT(play.wanted(), Contains(HasSubstr("start ")));
  EXPECT_EQ(play.last_said(), "rank 3 was killed by signal 9 at step 2: started again");
}

// A group may break while all live: a collective that is too late, ranks that do different things.
TEST(Master, RanksThatLoseEachOtherMeetAgain) {
  Play play(Play::elastic(2, 2));
  play.go(2, 7);
  play.ready({1}, "timeout in all_reduce");
  EXPECT_THAT(play.wanted(), ElementsAre("break 1"));
  play.ready({0});
  EXPECT_THAT(play.wanted(), ElementsAre("meet 1: 0 1"));
  EXPECT_EQ(play.last_said(), "the ranks lost each other at step 7: timeout in all_reduce; they meet again");
  play.begun(0, 7);
  play.ready({0, 1}, "timeout again");
  play.wanted();
  EXPECT_EQ(play.master.next_tick_ns(), play.now + 100 * kMs);
  play.pass(100);
  EXPECT_THAT(play.wanted(), ElementsAre("meet 2: 0 1"));
  play.ready({0, 1}, "and again");
  EXPECT_THAT(play.wanted(), ElementsAre("break 0", "end 0", "end 1"));
  play.exit(0, 1);
  play.exit(1, 1);
  const Verdict verdict = play.master.verdict({});
  EXPECT_EQ(verdict.exit_code, 1);
  EXPECT_THAT(verdict.message, HasSubstr("the ranks lost each other, 3 times at step 7: "));
}

TEST(Master, ARankThatDoesNotComeBackIsReplaced) {
  Play play(Play::elastic(3));
  play.go(3, 7);
  play.master.progress(2, {.generation = 0, .step = 7, .kind = control::ProgressKind::tokenizing});
  play.kill(1);
  play.ready({3});
  play.wanted();
  play.pass(1999);
  EXPECT_THAT(play.wanted(), IsEmpty());
  play.pass(1);
  EXPECT_THAT(play.wanted(), ElementsAre("signal 0 9"));  // rank 2 tokenizes: that takes its time
  EXPECT_EQ(play.last_said(), "rank 0 did not come back within 2 s: killed");
  play.kill(0);
  play.ready({4, 2});
  EXPECT_THAT(play.wanted(), ElementsAre("start 4 as 0", "meet 1: 4(g0: 0) 3(g0: 1) 2"));
}

}  // namespace
}  // namespace athanor::tests::master_test
