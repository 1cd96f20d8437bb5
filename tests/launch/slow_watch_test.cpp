#include "athanor/launch/diagnosis/slow_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "athanor/base/philox.h"

namespace athanor::tests::slow_watch_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using What = SlowRank::What;

constexpr double kMs = 1e6, kSecond = 1e9;

// Ranks that wait for each other at the end of each step.
struct Job {
  // `works`: of a step; with those numbers.
  explicit Job(std::vector<double> usual_ns, const std::vector<int64_t>& works = {})
      : works_ns(std::move(usual_ns)), delays_ns(works_ns.size()), sums(works_ns.size()) {
    watch.formed(static_cast<int>(works_ns.size()));
    for (size_t rank = 0; rank < works.size(); ++rank)
      watch.segment_begins(static_cast<int>(rank), works[rank]);
  }
  using Factor = std::function<double(int rank)>;

  // `work`: of a step, by rank. The order in which ranks tell is not that of their numbers.
  std::vector<SlowRank> step(const std::vector<double>& work_ns) {
    ++number;
    const double longest_ns = *std::max_element(work_ns.begin(), work_ns.end());
    passed_ns += longest_ns;
    std::vector<SlowRank> found;
    for (size_t i = 0; i < sums.size(); ++i) {
      const size_t rank = (i + static_cast<size_t>(number)) % sums.size();
      sums[rank].step = number;
      sums[rank].busy_ns += static_cast<int64_t>(work_ns[rank]);
      sums[rank].waited_ns += static_cast<int64_t>(longest_ns - work_ns[rank]);
      delays_ns[rank] += delay(static_cast<int>(rank), work_ns[rank] - works_ns[rank]);
      watch.delayed(static_cast<int>(rank), static_cast<int64_t>(delays_ns[rank]));
      if (lost(static_cast<int>(rank))) continue;
      for (const SlowRank& one : watch.progress(static_cast<int>(rank), sums[rank])) found.push_back(one);
    }
    return found;
  }
  // For so long, or until something is found.
  std::vector<SlowRank> run(
      double for_ns, const Factor& factor = [](int) { return 1.0; }) {
    for (const double end_ns = passed_ns + for_ns; passed_ns < end_ns;) {
      std::vector<double> work_ns = works_ns;
      for (size_t rank = 0; rank < work_ns.size(); ++rank) work_ns[rank] *= factor(static_cast<int>(rank));
      if (auto found = step(work_ns); !found.empty()) return found;
    }
    return {};
  }
  static Factor slow(int slow_rank, double factor) {
    return [=](int rank) { return rank == slow_rank ? factor : 1.0; };
  }

  std::vector<double> works_ns, delays_ns;
  std::vector<control::Progress> sums;
  // Of what it works longer, that for which its threads had no processor; some of them never have one.
  std::function<double(int rank, double longer_ns)> delay = [](int, double) { return 5 * kMs; };
  std::function<bool(int rank)> lost = [](int) { return false; };
  int64_t number = 0;
  double passed_ns = 0;
  SlowWatch watch{{}};
};

TEST(SlowWatch, NamesTheSlowRankWithinASecondAfterTwo) {
  Job job({10 * kMs, 10 * kMs});
  EXPECT_THAT(job.run(5 * kSecond), IsEmpty());
  const int64_t slow_from = job.number + 1;
  const double start_ns = job.passed_ns;
  const auto found = job.run(60 * kSecond, Job::slow(1, 2.0));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].what, What::began);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_NEAR(found[0].factor, 2.0, 0.1);
  EXPECT_NEAR(found[0].waiting_share, 0.5, 0.05);
  EXPECT_LE(std::abs(found[0].since_step - slow_from), 50) << "the steps of half a second";
  EXPECT_EQ(found[0].step, job.number);
  EXPECT_LE(job.passed_ns - start_ns, 3 * kSecond);
  EXPECT_GE(job.passed_ns - start_ns, 1.7 * kSecond);
  EXPECT_EQ(sentence_of(found[0], 4), "rank 5 is slow: it works 2.0 times as long on a step as before step " +
                                          std::to_string(found[0].since_step) +
                                          ", and the others wait for it 50 % of the time");
}

TEST(SlowWatch, TellsOnceAndSaysWhenItIsOver) {
  Job job({10 * kMs, 10 * kMs, 10 * kMs});
  job.run(5 * kSecond);
  ASSERT_THAT(job.run(60 * kSecond, Job::slow(0, 2.0)), SizeIs(1));
  EXPECT_THAT(job.run(60 * kSecond, Job::slow(0, 2.0)), IsEmpty());
  EXPECT_THAT(job.run(60 * kSecond, Job::slow(0, 1.4)), IsEmpty()) << "less slow, but not as before";
  const double start_ns = job.passed_ns;
  const auto found = job.run(60 * kSecond);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].what, What::ended);
  EXPECT_EQ(found[0].rank, 0);
  EXPECT_LE(job.passed_ns - start_ns, 2 * kSecond);
  EXPECT_THAT(sentence_of(found[0]), HasSubstr("rank 0 works as fast again as before step "));
  EXPECT_THAT(job.run(60 * kSecond), IsEmpty());
  ASSERT_THAT(job.run(60 * kSecond, Job::slow(0, 2.0)), SizeIs(1)) << "again";
}

TEST(SlowWatch, OfLongStepsTwoThatTakeTwiceAsLongAreEnough) {
  Job job({1 * kSecond, 1 * kSecond});
  job.run(10 * kSecond);
  const int64_t slow_from = job.number + 1;
  const auto found = job.run(60 * kSecond, Job::slow(1, 2.0));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].since_step, slow_from);
  EXPECT_EQ(found[0].step, slow_from + 1);
}

TEST(SlowWatch, NothingIsUsualBeforeTheFifthLongStep) {
  Job job({1 * kSecond, 1 * kSecond});
  EXPECT_THAT(job.run(4 * kSecond), IsEmpty());
  ASSERT_THAT(job.run(60 * kSecond, Job::slow(1, 2.0)), SizeIs(1));
}

TEST(SlowWatch, ARankThatIsSlowFromItsFirstStepIsComparedWithThoseThatHaveTheSameWork) {
  for (const double step_ms : {10.0, 400.0, 1000.0}) {
    Job job({step_ms * kMs, step_ms * kMs, step_ms * kMs}, {0, 0, 0});
    const auto found = job.run(60 * kSecond, Job::slow(1, 2.0));
    ASSERT_THAT(found, SizeIs(1)) << step_ms;
    EXPECT_EQ(found[0].rank, 1);
    EXPECT_NEAR(found[0].factor, 2.0, 0.1);
    EXPECT_NEAR(found[0].waiting_share, 0.5, 0.05);
    EXPECT_LE(found[0].since_step, 4);
    const double slow_step_ns = 2 * step_ms * kMs;  // from the third one on
    EXPECT_LE(job.passed_ns, 2 * slow_step_ns + std::max(2 * kSecond, 3 * slow_step_ns) + 1 * kSecond)
        << step_ms;
    EXPECT_THAT(
        sentence_of(found[0], 4),
        HasSubstr("rank 5 is slow: it works 2.0 times as long on a step as ranks with the same work, and"));
    EXPECT_THAT(job.run(60 * kSecond, Job::slow(1, 2.0)), IsEmpty()) << "once";
    const auto ended = job.run(60 * kSecond);
    ASSERT_THAT(ended, SizeIs(1));
    EXPECT_THAT(sentence_of(ended[0]), HasSubstr("rank 1 works as fast as ranks with the same work, after "));
    ASSERT_THAT(job.run(60 * kSecond, Job::slow(2, 2.0)), SizeIs(1)) << "another one, later";
  }
}

TEST(SlowWatch, RanksWithOtherWorkAreNotComparedFromTheirFirstStep) {
  for (const std::vector<int64_t>& works : {std::vector<int64_t>{0, 1}, {-1, -1}, {}}) {
    Job job({10 * kMs, 20 * kMs}, works);
    EXPECT_THAT(job.run(60 * kSecond), IsEmpty());
  }
  Job stages({10 * kMs, 10 * kMs, 20 * kMs, 20 * kMs}, {0, 0, 1, 1});
  EXPECT_THAT(stages.run(60 * kSecond), IsEmpty());
  Job slow({10 * kMs, 20 * kMs, 20 * kMs, 20 * kMs}, {0, 0, 1, 1});
  EXPECT_THAT(slow.run(60 * kSecond), IsEmpty()) << "nobody waits for it: the other stage takes as long";
}

TEST(SlowWatch, SmallDifferencesBetweenRanksWithTheSameWorkAreNoAlarm) {
  Job job({10 * kMs, 12 * kMs, 14 * kMs}, {0, 0, 0});
  EXPECT_THAT(job.run(60 * kSecond), IsEmpty());
}

TEST(SlowWatch, ARankWhoseProcessorIsUsedByOthersFromTheFirstStepIsToldWhenItLasts) {
  Job job({10 * kMs, 10 * kMs}, {0, 0});
  job.delay = [](int, double longer_ns) { return 5 * kMs + longer_ns; };
  EXPECT_THAT(job.run(19 * kSecond, Job::slow(1, 2.0)), IsEmpty());
  const auto found = job.run(10 * kSecond, Job::slow(1, 2.0));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(sentence_of(found[0]), HasSubstr("of the time; other processes use its processors"));
}

TEST(SlowWatch, ARankThatIsStoppedHalfOfTheTimeInPeriodsLongerThanAStepIsFound) {
  Job job({10 * kMs, 10 * kMs});
  job.run(5 * kSecond);
  int steps = 0;  // four as ever, and one that takes 50 ms
  const auto found = job.run(60 * kSecond, [&](int rank) {
    if (rank == 1) ++steps;
    return rank == 1 && steps % 5 == 0 ? 6.0 : 1.0;
  });
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, 1);
}

TEST(SlowWatch, StagesThatDifferByNatureAreComparedWithTheirPast) {
  Job job({30 * kMs, 10 * kMs, 20 * kMs});
  EXPECT_THAT(job.run(60 * kSecond), IsEmpty());
  EXPECT_THAT(job.run(60 * kSecond, Job::slow(1, 2.0)), IsEmpty()) << "nobody waits for it";
  const auto found = job.run(60 * kSecond, Job::slow(1, 6.0));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, 1);
}

TEST(SlowWatch, ARankWhoseProcessorIsUsedByOthersIsToldWhenItLasts) {
  Job job({10 * kMs, 10 * kMs});
  job.delay = [](int, double longer_ns) { return 5 * kMs + longer_ns; };
  job.run(5 * kSecond);
  EXPECT_THAT(job.run(19 * kSecond, Job::slow(1, 2.0)), IsEmpty());
  EXPECT_THAT(job.run(20 * kSecond), IsEmpty());
  const double start_ns = job.passed_ns;
  const auto found = job.run(60 * kSecond, Job::slow(1, 2.0));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_TRUE(found[0].is_delayed);
  EXPECT_NEAR(job.passed_ns - start_ns, 20 * kSecond, 1 * kSecond);
  EXPECT_THAT(sentence_of(found[0]), HasSubstr("of the time; other processes use its processors"));
}

TEST(SlowWatch, AllRanksThatBecomeSlowerTogetherAreNot) {
  Job job({10 * kMs, 10 * kMs});
  job.run(5 * kSecond);
  EXPECT_THAT(job.run(60 * kSecond, [](int) { return 2.0; }), IsEmpty());
  EXPECT_THAT(job.run(60 * kSecond), IsEmpty());
}

// As where other processes use all processors: each works longer, now before one and now before the other, and both wait.
TEST(SlowWatch, RanksThatWaitForEachOtherByTurnsAreNot) {
  Job job({10 * kMs, 10 * kMs});
  job.run(5 * kSecond);
  for (int step = 0; step < 2000; ++step) {
    for (control::Progress& sums : job.sums) sums.waited_ns += static_cast<int64_t>(15 * kMs);
    EXPECT_THAT(job.step({20 * kMs, 20 * kMs}), IsEmpty());
  }
}

// Two processors that other processes use, too: each rank gets its share in slices, and every ten seconds half of it for a second.
TEST(SlowWatch, AnHourOfLoadAndJitterIsNoAlarm) {
  for (const double step_ms : {5.0, 50.0, 700.0}) {
    Job job({step_ms * kMs, step_ms * kMs});
    RandomStream random(7, "load");
    uint64_t at = 0;
    const auto uniform = [&] { return static_cast<double>(random.uniform(at++, 0)); };
    double dip_until_ns[2] = {0, 0}, next_dip_ns = 10 * kSecond;
    const auto found = job.run(3600 * kSecond, [&](int rank) {
      if (job.passed_ns > next_dip_ns) {
        dip_until_ns[uniform() < 0.5 ? 0 : 1] = job.passed_ns + 1 * kSecond;
        next_dip_ns += 10 * kSecond;
      }
      const int num_slices = std::max(1, static_cast<int>(step_ms / 20));
      double jitter = 0;
      for (int slice = 0; slice < num_slices; ++slice) jitter += uniform() / num_slices;
      return (job.passed_ns < dip_until_ns[rank] ? 2.0 : 1.0) * (1.0 + jitter);
    });
    EXPECT_THAT(found, IsEmpty()) << step_ms << " ms: " << (found.empty() ? "" : sentence_of(found[0]));
  }
}

// Its work is not counted then (run/work_clock.h), but that of the steps beside it is.
TEST(SlowWatch, ARankThatSavesForASecondBesideItsStepsIsNot) {
  Job job({10 * kMs, 10 * kMs});
  for (int saves = 0; saves < 100; ++saves) {
    EXPECT_THAT(job.run(4 * kSecond), IsEmpty());
    EXPECT_THAT(job.run(1 * kSecond, Job::slow(0, 2.0)), IsEmpty());
  }
}

TEST(SlowWatch, WorkThatIsGivenToAnotherRankIsNot) {
  Job job({20 * kMs, 10 * kMs});
  job.run(5 * kSecond);
  job.works_ns = {15 * kMs, 15 * kMs};  // rank 1 has half as much again; nobody waits for it
  EXPECT_THAT(job.run(60 * kSecond), IsEmpty());
}

TEST(SlowWatch, MessagesThatAreLostCostNothing) {
  Job job({10 * kMs, 10 * kMs});
  job.lost = [&](int rank) { return (job.number + rank) % 3 == 0; };
  EXPECT_THAT(job.run(5 * kSecond), IsEmpty());
  const double start_ns = job.passed_ns;
  ASSERT_THAT(job.run(60 * kSecond, Job::slow(1, 2.0)), SizeIs(1));
  EXPECT_LE(job.passed_ns - start_ns, 3.1 * kSecond);
}

// As the launcher reads them: a rank's words stay in order, those of two ranks need not.
TEST(SlowWatch, TheWordsOfOneRankMayAllBeReadBeforeThoseOfAnother) {
  SlowWatch watch{{}};
  watch.formed(2);
  std::vector<SlowRank> found;
  for (const int rank : {0, 1}) {
    control::Progress sums;
    watch.segment_begins(rank, 7);
    for (sums.step = 1; sums.step <= 40; ++sums.step) {
      const bool is_slow = sums.step > 20;
      sums.busy_ns += static_cast<int64_t>((is_slow && rank == 1 ? 2 : 1) * kSecond);
      sums.waited_ns += static_cast<int64_t>((is_slow && rank == 0 ? 1 : 0) * kSecond);
      for (const SlowRank& one : watch.progress(rank, sums)) found.push_back(one);
    }
  }
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].since_step, 21);
}

TEST(SlowWatch, ANewSegmentForgetsWhatWasUsual) {
  Job job({10 * kMs, 10 * kMs});
  job.run(5 * kSecond);
  for (const int rank : {0, 1}) job.watch.segment_begins(rank);
  EXPECT_THAT(job.run(60 * kSecond, Job::slow(1, 2.0)), IsEmpty());
  job.watch.formed(1);
  EXPECT_THAT(job.watch.progress(0, {.step = 100'000}), IsEmpty()) << "a rank alone has no others";
}

}  // namespace
}  // namespace athanor::tests::slow_watch_test
