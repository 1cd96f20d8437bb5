// The ranks are measured against each other before their first world: what a Master makes of it, without processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "athanor/launch/master/journal.h"
#include "athanor/launch/master/master_inputs.h"
#include "master_play.h"
#include "support/temporary_folder.h"

namespace athanor::tests::master_warm_up_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

MasterOptions warmed(int ranks, int max_restarts = 10) {
  MasterOptions options = Play::elastic(ranks, max_restarts);
  options.warm_up_ns = 10'000 * kMs;
  return options;
}

struct Warmed : Play {
  explicit Warmed(int ranks, int max_restarts = 10) : Play(warmed(ranks, max_restarts)) {
    for (int rank = 0; rank < ranks; ++rank) ready({rank}, "the start");
    lines.clear();
    take();
    lines.clear();
  }
  void answers(int worker, double gflop_per_s, double gb_per_s = 10) {
    answers(worker, {.matrix_gflop_per_s = gflop_per_s, .memory_gb_per_s = gb_per_s, .disk_mb_per_s = 200});
  }
  void answers(int worker, control::WarmedUp measured) {
    measured.round = master.warm_up_round();
    master.warmed_up(worker, measured, now);
  }
  // The causes of these events.
  Lines told(const std::string& event) {
    take();
    Lines causes;
    for (const JobEvent& one : events)
      if (one.event == event) causes.push_back(one.cause);
    return causes;
  }
};

TEST(MasterWarmUp, BeginsWhenAllWaitAndIsSilentWhereAllAreAlike) {
  Play play(warmed(3));
  play.wanted();
  play.ready({2, 0}, "the start");
  EXPECT_THAT(play.wanted(), IsEmpty());
  EXPECT_EQ(play.master.warm_up_round(), -1);
  play.ready({1}, "the start");
  EXPECT_THAT(play.wanted(), ElementsAre("warm up 0 for 0", "warm up 1 for 0", "warm up 2 for 0"));
  EXPECT_EQ(play.master.warm_up_round(), 0);
  EXPECT_EQ(play.master.next_tick_ns(), play.now + 10'000 * kMs);
  for (const int worker : {1, 0}) {
    play.master.warmed_up(worker, {.matrix_gflop_per_s = 60.0 + worker, .memory_gb_per_s = 10}, play.now);
    EXPECT_THAT(play.wanted(), IsEmpty());
  }
  play.now += 30 * kMs;
  play.master.warmed_up(2, {.matrix_gflop_per_s = 50, .memory_gb_per_s = 7, .disk_mb_per_s = 200}, play.now);
  EXPECT_THAT(play.wanted(), ElementsAre("meet 0: 0 1 2"));
  EXPECT_THAT(play.said, IsEmpty());
  EXPECT_THAT(play.names_of_events(), ElementsAre("start", "measured"));
  EXPECT_EQ(play.events[1].cause,
            "matrix products 50 to 61 GFLOP/s, memory 7 to 10 GB/s, disk 200 to 200 MB/s");
  EXPECT_DOUBLE_EQ(play.events[1].detect_seconds, 0.03);
  EXPECT_EQ(play.events[1].generation, 0);
  EXPECT_EQ(play.master.next_tick_ns(), kNeverNs);
}

TEST(MasterWarmUp, NothingIsMeasuredWhereItIsOffOrNobodyCan) {
  Play off(Play::elastic(2));
  off.ready({0, 1}, "the start");
  EXPECT_THAT(off.wanted(), ElementsAre("start 0 as 0", "start 1 as 1", "meet 0: 0 1"));
  Warmed play(2);
  play.answers(0, control::WarmedUp{});
  play.answers(1, control::WarmedUp{});
  EXPECT_THAT(play.wanted(), ElementsAre("meet 0: 0 1"));
  EXPECT_THAT(play.names_of_events(), ElementsAre("start"));
}

TEST(MasterWarmUp, ASlowRankIsMeasuredTwiceAgainAndThenNamed) {
  Warmed play(4);
  for (const std::string round : {"1", "2"}) {
    for (const int worker : {0, 1, 2, 3}) play.answers(worker, worker == 2 ? 30.5 : 60 + worker);
    EXPECT_THAT(play.wanted(), ElementsAre("warm up 0 for " + round, "warm up 1 for " + round,
                                           "warm up 2 for " + round, "warm up 3 for " + round));
  }
  for (const int worker : {0, 1, 2, 3}) play.answers(worker, worker == 2 ? 30.5 : 60 + worker);
  EXPECT_THAT(play.wanted(), ElementsAre("meet 0: 0 1 2 3"));
  const std::string sentence =
      "rank 2 multiplies matrices at 0.50 of the others' speed (30.5 of 61 GFLOP/s), before the first step: "
      "the others will wait for it";
  EXPECT_THAT(play.said, ElementsAre(sentence));
  EXPECT_THAT(play.told("warm-up"), ElementsAre(sentence));
  EXPECT_EQ(play.events[1].rank, 2);
  EXPECT_THAT(play.names_of_events(), ElementsAre("start", "warm-up", "measured"));
}

// Of each rank the best of the rounds counts: whoever is slow for a moment is not named, nor one that is just so fast enough.
TEST(MasterWarmUp, AMomentOfABusyMachineBlamesNobody) {
  Warmed play(2);
  play.answers(0, 20);
  play.answers(1, 60);
  EXPECT_THAT(play.wanted(), ElementsAre("warm up 0 for 1", "warm up 1 for 1"));
  play.answers(0, 41);
  play.answers(1, 25);
  EXPECT_THAT(play.wanted(), ElementsAre("meet 0: 0 1"));
  EXPECT_THAT(play.said, IsEmpty());
  EXPECT_THAT(play.told("measured"),
              ElementsAre("matrix products 41 to 60 GFLOP/s, memory 10 to 10 GB/s, disk 200 to 200 MB/s"));
}

// Six ranks on two processors: who shares the memory with another gets half of it, and that may be the same one each time.
TEST(MasterWarmUp, ARankIsHeldAgainstTheWorstOfTheOthers) {
  Warmed play(4);
  for (const int worker : {0, 1, 2, 3}) play.answers(worker, 60, worker == 1 ? 12 : 24);
  EXPECT_THAT(play.wanted(), Not(IsEmpty()));
  for (const int worker : {0, 1, 2, 3}) play.answers(worker, 60, worker < 3 ? 12 : 24);
  EXPECT_THAT(play.wanted(), ElementsAre("meet 0: 0 1 2 3"));
  EXPECT_THAT(play.said, IsEmpty());
}

TEST(MasterWarmUp, ASlowMemoryIsNamedToo) {
  Warmed play(2);
  for (int round = 0; round < 3; ++round) {
    play.answers(0, 60, 10);
    play.answers(1, 60, 4);
  }
  EXPECT_EQ(play.last_said(),
            "rank 1 copies memory at 0.40 of the others' speed (4 of 10 GB/s), before the first step: the "
            "others will wait for it");
}

TEST(MasterWarmUp, OldAnswersAndThoseOfTheGoneDoNotCount) {
  Warmed play(2);
  play.answers(0, 60);
  play.kill(1);
  EXPECT_THAT(play.wanted(), ElementsAre("start 2 as 1"));
  EXPECT_EQ(play.master.warm_up_round(), -1) << "nobody is measured while a rank is missing";
  EXPECT_EQ(play.master.next_tick_ns(), kNeverNs);
  play.ready({2}, "the start");
  EXPECT_THAT(play.wanted(), ElementsAre("warm up 0 for 1", "warm up 2 for 1"));
  play.master.warmed_up(0, {.round = 0, .matrix_gflop_per_s = 5}, play.now);
  play.answers(2, 60);
  EXPECT_THAT(play.wanted(), IsEmpty());
  play.answers(0, 60);
  EXPECT_THAT(play.wanted(), ElementsAre("meet 0: 0 2"));
  EXPECT_THAT(play.told("warm-up"), IsEmpty());
  // A world later nobody is measured again.
  play.begun(0, 0);
  play.kill(2);
  play.ready({0, 3});
  EXPECT_THAT(play.wanted(),
              ElementsAre("release before 0", "break 1", "start 3 as 1", "meet 1: 0 3(g0: 1)"));
}

TEST(MasterWarmUp, WhoDoesNotAnswerIsNamedAndTheJobGoesOn) {
  Warmed play(3);
  play.answers(0, 60);
  play.answers(2, 60);
  play.pass(9'999);
  EXPECT_THAT(play.wanted(), IsEmpty());
  play.pass(1);
  EXPECT_THAT(play.wanted(), ElementsAre("meet 0: 0 1 2"));
  EXPECT_EQ(play.last_said(),
            "rank 1 has not answered the warm-up within 10 s: the job goes on without its figures");
  EXPECT_THAT(play.names_of_events(), ElementsAre("start", "warm-up", "measured"));
  play.master.warmed_up(1, {.round = 0, .matrix_gflop_per_s = 1}, play.now);
  EXPECT_THAT(play.wanted(), IsEmpty());
}

TEST(MasterWarmUp, ADiskThatCannotBeWrittenToEndsTheJob) {
  for (const int max_restarts : {0, 10}) {
    Warmed play(3, max_restarts);
    const control::WarmedUp full{.refusal = "cannot write 'runs/t/x': No space left on device",
                                 .hint = "make room"};
    play.answers(0, 60);
    play.answers(1, full);
    EXPECT_THAT(play.wanted(), IsEmpty());
    play.answers(2, full);
    EXPECT_THAT(play.wanted(), ElementsAre("end 0", "end 1", "end 2"));
    for (const int worker : {0, 1, 2}) play.exit(worker, 1);
    EXPECT_THAT(play.wanted(), IsEmpty());
    EXPECT_TRUE(play.master.done());
    const Verdict verdict = play.master.verdict({});
    EXPECT_EQ(verdict.exit_code, 1);
    EXPECT_EQ(verdict.message,
              "rank 1: cannot write 'runs/t/x': No space left on device (and so 1 other rank)");
    EXPECT_EQ(verdict.hint, "make room");
  }
}

TEST(MasterWarmUp, WarningsOfSeveralRanksAreOneLine) {
  Warmed play(3);
  play.answers(0, 60);
  for (const int worker : {1, 2})
    play.answers(worker, {.matrix_gflop_per_s = 60, .warning = "memory could not be measured"});
  play.take();
  EXPECT_THAT(play.said, ElementsAre("rank 1 (and 1 more): memory could not be measured"));
}

TEST(MasterWarmUp, WhoAsksToStopDoesNotWaitForIt) {
  Warmed play(2);
  play.answers(0, 60);
  play.master.stop(SIGTERM, false, play.now);
  EXPECT_THAT(play.wanted(), ElementsAre("signal 0 15", "signal 1 15", "meet 0: 0 1"));
  EXPECT_EQ(play.master.warm_up_round(), -1);
}

TEST(MasterWarmUp, ARankThatDiesWhereNoneIsStartedAgainEndsTheJob) {
  Warmed play(2, 0);
  play.kill(1);
  EXPECT_THAT(play.wanted(), ElementsAre("end 0"));
  play.exit(0, 1);
  EXPECT_TRUE(play.master.done());
  EXPECT_EQ(play.master.verdict({}).message, "rank 1 was killed by signal 9");
}

// Told the same from a journal after any input, it decides the same.
TEST(MasterWarmUp, IsDecidedAgainAsItWas) {
  std::vector<MasterInput> inputs;
  int64_t now = 5000 * kMs;
  const auto said = [&](int worker, control::WorkerMessage message) {
    inputs.push_back({now += kMs, WorkerSaid{worker, std::move(message)}});
  };
  const auto measured = [&](int worker, int64_t number, double gflop_per_s) {
    said(worker, control::WarmedUp{.round = number, .matrix_gflop_per_s = gflop_per_s});
  };
  inputs.push_back({now, Started{}});
  said(0, control::Ready{.why = "the start"});
  said(1, control::Ready{.why = "the start"});
  measured(0, 0, 60);
  inputs.push_back({now += kMs, WorkerExited{1, {.signal_number = SIGKILL, .how = "was killed"}}});
  said(2, control::Ready{.why = "the start"});
  for (const int64_t number : {1, 2, 3}) {
    measured(0, number, 60);
    measured(2, number, 20);
  }
  const auto decide = [](Master& master, const MasterInput& input) {
    Lines all = {tell(master, decode_input(encode(input)))};
    for (const MasterAction& action : master.take_actions()) {
      EXPECT_EQ(decode_action(encode(action)), action);
      all.push_back(encode(action));
    }
    all.push_back(fmt::format("round {}, tick {}", master.warm_up_round(), master.next_tick_ns()));
    return all;
  };
  Master whole(warmed(2));
  std::vector<Lines> expected;
  for (const MasterInput& input : inputs) expected.push_back(decide(whole, input));
  EXPECT_EQ(whole.generation(), 0);
  EXPECT_THAT(expected.back(), ::testing::Contains(HasSubstr("rank 1 multiplies matrices at 0.33")));
  for (size_t killed_after = 0; killed_after < inputs.size(); ++killed_after) {
    const TemporaryFolder folder;
    {
      Journal journal(folder.path("journal"));
      for (size_t i = 0; i < killed_after; ++i) journal.append(inputs[i]);
    }
    Master next(warmed(2));
    for (const MasterInput& input : Journal(folder.path("journal")).inputs()) decide(next, input);
    for (size_t i = killed_after; i < inputs.size(); ++i)
      EXPECT_EQ(decide(next, inputs[i]), expected[i]) << killed_after << " " << i;
  }
}

}  // namespace
}  // namespace athanor::tests::master_warm_up_test
