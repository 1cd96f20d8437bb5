#include "athanor/launch/diagnosis/progress_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace athanor::tests::progress_watch_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using What = StoppedRank::What;

constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs;

struct Watched {
  // The states of ranks 0, 1, ..., a letter each, a look later.
  std::vector<StoppedRank> look(const std::string& states) {
    now += kLookNs;
    std::vector<SeenState> ranks;
    for (size_t rank = 0; rank < states.size(); ++rank)
      ranks.push_back({static_cast<int>(rank), states[rank]});
    return watch.look(now, ranks);
  }
  void steps(int count, int64_t each_ns) {
    for (int i = 0; i < count; ++i) watch.progress(++step, now += each_ns);
  }
  // Looks until something is found, and says when; -1: nothing in a minute.
  int64_t time_of_next(const std::string& states) {
    const int64_t start = now;
    while (now - start < 15 * kSecond)
      if (!look(states).empty()) return now - start;
    return -1;
  }
  int64_t step = 0, now = 100 * kSecond;
  ProgressWatch watch{{.kill_ns = 5 * kSecond}};
};

TEST(ProgressWatch, NamesTheStoppedRankOnceWithinASecond) {
  Watched job;
  job.steps(20, 10 * kMs);
  EXPECT_FALSE(job.watch.wants_states(job.now + kLookNs - 1));
  EXPECT_TRUE(job.watch.wants_states(job.now + kLookNs));
  EXPECT_THAT(job.look("STS"), IsEmpty());
  EXPECT_THAT(job.look("STS"), ElementsAre(StoppedRank{What::began, 1, 'T', kLookNs}));
  EXPECT_THAT(job.look("STS"), IsEmpty());
}

TEST(ProgressWatch, FastStepsWantNoStates) {
  Watched job;
  for (int step = 0; step < 200; ++step) {
    job.steps(1, 10 * kMs);
    EXPECT_FALSE(job.watch.wants_states(job.now));
  }
}

TEST(ProgressWatch, RanksThatSleepOrRunAreNotBlamedHoweverLongAStepTakes) {
  Watched job;
  job.steps(5, 10 * kMs);
  for (const std::string states : {"SSS", "RRS", "SRD", "SZS"}) EXPECT_EQ(job.time_of_next(states), -1);
}

TEST(ProgressWatch, AStopOfAMomentIsNone) {
  Watched job;
  job.steps(5, 10 * kMs);
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(job.look("ST"), IsEmpty());
    EXPECT_THAT(job.look("SS"), IsEmpty());
  }
}

TEST(ProgressWatch, TellsThatItGoesOn) {
  Watched job;
  job.steps(5, 10 * kMs);
  job.look("ST");
  job.look("ST");
  job.watch.progress(++job.step, job.now);
  EXPECT_TRUE(job.watch.wants_states(job.now + kLookNs));  // it is looked at until it is known to run
  EXPECT_THAT(job.look("SS"), ElementsAre(StoppedRank{What::ended, 1, 'T', 2 * kLookNs}));
}

TEST(ProgressWatch, TooLongOnceAfterTheLimit) {
  Watched job;
  job.steps(5, 10 * kMs);
  job.look("ST");
  job.look("ST");
  EXPECT_EQ(job.time_of_next("ST"), 5 * kSecond - kLookNs);
  EXPECT_EQ(job.time_of_next("ST"), -1);
}

TEST(ProgressWatch, TheLimitFollowsTheMedianStep) {
  Watched job;
  job.steps(9, 3 * kSecond);
  job.steps(1, 500 * kSecond);
  EXPECT_EQ(job.watch.limit_ns(), 15 * kSecond);
  job.watch.formed();
  EXPECT_EQ(job.watch.limit_ns(), 5 * kSecond);
}

TEST(ProgressWatch, TheSameStepOfOtherRanksIsNoStep) {
  Watched job;
  for (int step = 1; step < 9; ++step) {
    job.now += 3 * kSecond;
    for (int rank = 0; rank < 3; ++rank) job.watch.progress(step, job.now);
  }
  EXPECT_EQ(job.watch.limit_ns(), 15 * kSecond);
}

TEST(ProgressWatch, ARankWhoseProcessEndedDoesNotRunAgain) {
  Watched job;
  job.steps(5, 10 * kMs);
  job.look("ST");
  job.look("ST");
  job.watch.forget(1);
  EXPECT_THAT(job.look("SR"), IsEmpty());
}

TEST(ProgressWatch, ADebuggerIsNamedAndTheRankLeftAlone) {
  Watched job;
  job.steps(5, 10 * kMs);
  job.look("tS");
  EXPECT_THAT(job.look("tS"), ElementsAre(StoppedRank{What::began, 0, 't', kLookNs}));
  EXPECT_EQ(job.time_of_next("tS"), -1);
}

TEST(ProgressWatch, TimeWithoutLooksCountsForNobody) {
  Watched job;
  job.steps(5, 10 * kMs);
  job.look("ST");
  job.look("ST");
  job.now += 3600 * kSecond;  // the launcher was stopped
  EXPECT_THAT(job.look("ST"), IsEmpty());
}

}  // namespace
}  // namespace athanor::tests::progress_watch_test
