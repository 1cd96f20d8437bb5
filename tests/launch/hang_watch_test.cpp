// A job stands still when every rank is late in what it does, and only then.
#include "athanor/launch/diagnosis/hang_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "athanor/launch/diagnosis/hang_report.h"
#include "athanor/launch/diagnosis/progress_watch.h"

namespace athanor::tests::hang_watch_test {
namespace {

using ::testing::HasSubstr;
using Kind = control::ProgressKind;

constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs;
constexpr int kRanks = 3;

struct Watched {
  Watched() { watch.formed(kRanks); }
  void say(int rank, Kind kind, int64_t count) { watch.progress(rank, {.kind = kind, .count = count}, now); }
  void all_say(Kind kind, int64_t count) {
    for (int rank = 0; rank < kRanks; ++rank) say(rank, kind, count);
  }
  // Everybody does `kind`, that often.
  void do_some(Kind kind, int times, int64_t each_ns) {
    all_say(kind, counts);
    for (int i = 0; i < times; ++i) {
      now += each_ns;
      all_say(kind, ++counts);
    }
  }
  // Looks until the job is found to stand still, and says after what time; -1: it is not within an hour.
  int64_t time_to_alarm(bool counted = true) {
    const int64_t start = now;
    while (now - start < 3600 * kSecond) {
      now += kLookNs;
      if (watch.look(now, counted)) return now - start;
    }
    return -1;
  }
  int64_t now = 100 * kSecond, counts = 0;
  HangWatch watch{{}};
};

TEST(HangWatch, FindsStepsThatDoNotCome) {
  Watched job;
  job.do_some(Kind::step, 5, 10 * kMs);
  EXPECT_EQ(job.time_to_alarm(), 10 * kSecond);
  const auto found = job.watch.look(job.now + kLookNs);
  ASSERT_TRUE(found);  // as long as it lasts
  EXPECT_EQ(found->kind, Kind::step);
  EXPECT_EQ(found->still_ns, 10 * kSecond + kLookNs);
  EXPECT_EQ(found->usual_ns, 10 * kMs);
  job.now += 2 * kLookNs;
  job.all_say(Kind::step, ++job.counts);
  EXPECT_FALSE(job.watch.look(job.now));
}

TEST(HangWatch, TheLimitIsTwentyMedians) {
  Watched job;
  job.do_some(Kind::step, 9, 3 * kSecond);
  job.do_some(Kind::step, 1, 50 * kSecond);
  EXPECT_EQ(job.time_to_alarm(), 60 * kSecond);
}

TEST(HangWatch, EachKindHasItsOwn) {
  Watched job;
  job.do_some(Kind::evaluation, 5, 2 * kSecond);
  job.do_some(Kind::step, 20, 10 * kMs);
  job.do_some(Kind::evaluation, 0, 0);
  EXPECT_EQ(job.time_to_alarm(), 40 * kSecond);
  Watched saves;
  saves.do_some(Kind::saving, 5, kSecond);
  EXPECT_EQ(saves.time_to_alarm(), 60 * kSecond);
  Watched texts;
  texts.do_some(Kind::tokenizing, 5, kMs);
  EXPECT_EQ(texts.time_to_alarm(), 300 * kSecond);
}

TEST(HangWatch, NobodyIsLateInWhatIsNotKnown) {
  Watched fresh;
  EXPECT_EQ(fresh.time_to_alarm(), -1);
  for (const Kind kind :
       {Kind::step, Kind::evaluation, Kind::saving, Kind::tokenizing, Kind::closing, Kind::other}) {
    Watched job;
    job.all_say(kind, 0);
    EXPECT_EQ(job.time_to_alarm(), -1) << control::name_of(kind);
    Watched after;  // usual steps, then something that has not been done before
    after.do_some(Kind::step, 50, 10 * kMs);
    after.all_say(kind, 0);
    EXPECT_EQ(after.time_to_alarm(), kind == Kind::step ? 10 * kSecond : -1) << control::name_of(kind);
  }
  for (const Kind kind : {Kind::closing, Kind::other}) {
    Watched job;
    job.do_some(kind, 9, kMs);
    EXPECT_EQ(job.time_to_alarm(), -1) << control::name_of(kind);
  }
}

// Of three ranks one evaluates more than the others, which wait for it.
TEST(HangWatch, WhoGoesOnKeepsAllFromBeingBlamed) {
  Watched job;
  job.do_some(Kind::evaluation, 5, 10 * kMs);
  for (int i = 0; i < 1000; ++i) {
    job.say(1, Kind::evaluation, ++job.counts);
    job.now += kLookNs;
    EXPECT_FALSE(job.watch.look(job.now));
  }
  EXPECT_EQ(job.time_to_alarm(), 10 * kSecond - kLookNs);
}

TEST(HangWatch, OneThatDoesSomethingElseKeepsAllFromBeingBlamed) {
  Watched job;
  job.do_some(Kind::step, 50, 10 * kMs);
  job.say(2, Kind::other, 0);
  EXPECT_EQ(job.time_to_alarm(), -1);
}

TEST(HangWatch, ANewSegmentHasOtherSteps) {
  Watched job;
  job.do_some(Kind::step, 50, 10 * kMs);
  job.watch.segment_begins();
  job.all_say(Kind::step, job.counts);
  EXPECT_EQ(job.time_to_alarm(), -1);
  job.do_some(Kind::step, 4, 10 * kMs);
  job.watch.formed(kRanks);
  EXPECT_EQ(job.time_to_alarm(), -1);
}

TEST(HangWatch, ARankThatHasEndedIsOfNoInterest) {
  Watched job;
  job.do_some(Kind::step, 50, 10 * kMs);
  job.watch.forget(1);
  EXPECT_EQ(job.time_to_alarm(), -1);
}

TEST(HangWatch, TimeWithoutLooksOrWithAStoppedRankCountsForNobody) {
  Watched job;
  job.do_some(Kind::step, 50, 10 * kMs);
  job.watch.look(job.now);
  job.now += 3600 * kSecond;  // the launcher was stopped
  EXPECT_FALSE(job.watch.look(job.now));
  EXPECT_EQ(job.time_to_alarm(/*counted=*/false), -1);
  EXPECT_EQ(job.time_to_alarm(), 10 * kSecond);
}

RankStacks rank_at(int rank, std::vector<std::string> frames) {
  return {rank, {.process = 100 + rank, .threads = {{100 + rank, "athanor", 'S', "", std::move(frames)}}}};
}

TEST(HangReport, NamesTheOneThatTheOthersWaitFor) {
  const std::vector<std::string> waits = {"futex", "a::comm::wait", "a::comm::Group::all_reduce", "step",
                                          "main"};
  const Standstill found{.kind = Kind::step, .still_ns = 12 * kSecond, .usual_ns = 50 * kMs};
  const HangReport report = report_of(
      found, {rank_at(0, waits), rank_at(1, {"pread", "data::read", "Loader::next", "step", "main"}),
              rank_at(2, waits)});
  EXPECT_EQ(report.sentence,
            "no rank has done a step for 12s (usually 50 ms): rank 1 sleeps in pread, called by data::read, "
            "called by "
            "Loader::next, called by step; the others wait for it");
  EXPECT_EQ(report.rank, 1);
  EXPECT_EQ(report.lines, "");
  const HangReport unclear = report_of({.kind = Kind::saving}, {rank_at(0, waits), rank_at(1, waits)});
  EXPECT_EQ(unclear.rank, std::nullopt);
  EXPECT_THAT(unclear.sentence, HasSubstr("no rank has finished saving for "));
  EXPECT_THAT(unclear.sentence, HasSubstr("; it is not clear which one holds up the others"));
  EXPECT_THAT(unclear.lines, HasSubstr("ranks 0, 1: sleeps in futex"));
}

}  // namespace
}  // namespace athanor::tests::hang_watch_test
