// What tuning tries, keeps and proposes, on numbers that a table gives.
#include <gmock/gmock.h>

#include "athanor/base/error.h"
#include "athanor/run/tuning/candidates.h"
#include "athanor/run/tuning/proposal.h"
#include "athanor/run/tuning/standing.h"
#include "athanor/run/tuning/step_times.h"

namespace athanor::tests::tuning_choice_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Fits kAllFit = [](int64_t) { return true; };

TEST(TuningStepTimes, AreTheMedianAndTheUsualDistanceFromIt) {
  EXPECT_EQ(measure({5.0}), (StepTimes{5.0, 0.0}));
  EXPECT_EQ(measure({1.0, 2.0, 4.0, 3.0}), (StepTimes{2.5, 1.0}));
  EXPECT_EQ(measure({10.0, 11.0, 500.0, 9.0, 10.0}), (StepTimes{10.0, 1.0}));  // one slow step moves nothing
  EXPECT_THROW(measure({}), Error);
}

TEST(TuningStepTimes, NoiseIsNoGain) {
  EXPECT_TRUE(is_faster({0.9, 0.0}, {1.0, 0.0}));
  EXPECT_FALSE(is_faster({1.0, 0.0}, {1.0, 0.0}));
  EXPECT_FALSE(is_faster({1.1, 0.0}, {1.0, 0.0}));
  EXPECT_FALSE(is_faster({0.9, 0.06}, {1.0, 0.0}));  // of what was tried
  EXPECT_FALSE(is_faster({0.9, 0.0}, {1.0, 0.06}));  // of what was before
  EXPECT_TRUE(is_faster({0.9, 0.04}, {1.0, 0.04}));
}

TEST(TuningStepTimes, ATryHasToPay) {
  const StepTimes before{2.0, 0.0};
  EXPECT_FALSE(
      pays(before, {.steps_left = 132, .steps_of_try = 12}));  // 120 steps gain 12, which is the cost
  EXPECT_TRUE(pays(before, {.steps_left = 133, .steps_of_try = 12}));
  EXPECT_FALSE(pays(before, {.steps_left = 142, .steps_of_try = 12, .switch_seconds = 1.0}));
  EXPECT_TRUE(pays(before, {.steps_left = 143, .steps_of_try = 12, .switch_seconds = 1.0}));
  EXPECT_FALSE(pays(before, {.steps_left = 0, .steps_of_try = 12}));
}

// What a climb tries if `is_better` judges: value after value, and the one that is left.
struct Climb {
  std::vector<int64_t> tried;
  int64_t end;
};
using Next = std::function<std::optional<int64_t>(int64_t now, const std::set<int64_t>& tried)>;
Climb climb(int64_t first, const Next& next, const std::function<double(int64_t)>& seconds) {
  Climb result{{}, first};
  std::set<int64_t> tried;
  while (const auto value = next(result.end, tried)) {
    if (result.tried.size() > 50) ADD_FAILURE() << "without end";
    if (result.tried.size() > 50) break;
    EXPECT_EQ(tried.count(*value), 0u) << *value << " twice";
    tried.insert({result.end, *value});
    result.tried.push_back(*value);
    if (seconds(*value) < seconds(result.end)) result.end = *value;
  }
  return result;
}

Climb climb_sizes(int64_t first, const BatchShape& shape, const std::function<double(int64_t)>& seconds,
                  const Fits& fits = kAllFit) {
  return climb(
      first,
      [&](int64_t now, const std::set<int64_t>& tried) { return next_micro_batch(now, shape, tried, fits); },
      seconds);
}

TEST(TuningCandidates, SizesClimbAsLongAsThatHelps) {
  const auto larger_is_faster = [](int64_t size) { return 1.0 / static_cast<double>(size); };
  const auto smaller_is_faster = [](int64_t size) { return static_cast<double>(size); };
  Climb found = climb_sizes(1, {.global_batch_size = 32, .data_ranks = 2}, larger_is_faster);
  EXPECT_THAT(found.tried, ElementsAre(2, 4, 8, 16));  // 32 would leave a rank without a micro-batch
  EXPECT_EQ(found.end, 16);
  found = climb_sizes(8, {.global_batch_size = 32, .data_ranks = 2}, smaller_is_faster);
  EXPECT_THAT(found.tried, ElementsAre(16, 4, 2, 1));
  EXPECT_EQ(found.end, 1);
  found = climb_sizes(1, {.global_batch_size = 32},
                      [](int64_t size) { return size == 4 ? 0.0 : 1.0 / static_cast<double>(size); });
  EXPECT_THAT(found.tried, ElementsAre(2, 4, 8));
  EXPECT_EQ(found.end, 4);
  found = climb_sizes(4, {.global_batch_size = 32}, [](int64_t size) { return size == 4 ? 0.0 : 1.0; });
  EXPECT_THAT(found.tried, ElementsAre(8, 2));
  EXPECT_EQ(found.end, 4);
}

TEST(TuningCandidates, SizesDivideTheBatchOfARank) {
  const auto larger_is_faster = [](int64_t size) { return 1.0 / static_cast<double>(size); };
  EXPECT_THAT(climb_sizes(1, {.global_batch_size = 12}, larger_is_faster).tried, ElementsAre(2, 4, 6, 12));
  EXPECT_THAT(climb_sizes(1, {.global_batch_size = 10, .data_ranks = 2}, larger_is_faster).tried,
              ElementsAre(5));
  EXPECT_THAT(climb_sizes(1, {.global_batch_size = 7, .data_ranks = 3}, larger_is_faster).tried, IsEmpty());
  // One that does not divide it may be where the run begins.
  EXPECT_THAT(climb_sizes(5, {.global_batch_size = 12}, larger_is_faster).tried, ElementsAre(6, 12));
}

TEST(TuningCandidates, WhatDoesNotFitIsNotTried) {
  const auto fits = [](int64_t size) { return size <= 4; };
  const auto larger_is_faster = [](int64_t size) { return 1.0 / static_cast<double>(size); };
  EXPECT_THAT(climb_sizes(1, {.global_batch_size = 32}, larger_is_faster, fits).tried, ElementsAre(2, 4));
  EXPECT_THAT(climb_sizes(4, {.global_batch_size = 32}, larger_is_faster, fits).tried, ElementsAre(2));
}

TEST(TuningCandidates, ThreadsStayWithinTheShare) {
  const auto climb_threads = [](int64_t first, int64_t most, const std::function<double(int64_t)>& seconds) {
    return climb(
        first,
        [&](int64_t now, const std::set<int64_t>& tried) { return next_threads(now, most, tried, kAllFit); },
        seconds);
  };
  const auto more_is_faster = [](int64_t threads) { return 1.0 / static_cast<double>(threads); };
  const auto fewer_is_faster = [](int64_t threads) { return static_cast<double>(threads); };
  EXPECT_THAT(climb_threads(1, 6, more_is_faster).tried, ElementsAre(2, 4, 6));
  EXPECT_THAT(climb_threads(6, 6, more_is_faster).tried, ElementsAre(3));
  EXPECT_THAT(climb_threads(6, 6, fewer_is_faster).tried, ElementsAre(3, 1));
  EXPECT_THAT(climb_threads(1, 1, fewer_is_faster).tried, IsEmpty());
  EXPECT_THAT(climb_threads(8, 2, more_is_faster).tried,
              ElementsAre(4));  // more than its share, as the user wants
}

Decision tries(int64_t step, const char* value, const char* was) {
  return {step, SetSetting{kMicroBatchKey, value, was}, "tuning: why"};
}

TEST(TuningStanding, IsWhatTheDecisionsTell) {
  std::vector<Decision> decisions = {{1, SetSetting{"optimizer.lr", "0.1", "0.2"}, "the operator wants it"},
                                     {2, SkipBatches{1}, "tuning: no"},
                                     tries(5, "2", "1")};
  Standing standing = standing_of(decisions, 1);
  ASSERT_TRUE(standing.open.has_value());
  EXPECT_EQ(standing.open->value, "2");
  EXPECT_EQ(standing.num_tries, 1);
  EXPECT_THAT(standing.of_operator, IsEmpty());

  decisions.push_back(judgement(*standing.open, /*keeps=*/true, 9, "faster"));
  EXPECT_EQ(decisions.back(), (Decision{9, SetSetting{kMicroBatchKey, "2", "2"}, "tuning: faster"}));
  EXPECT_EQ(text_of(decisions.back()), "train.micro_batch_size stays 2: tuning: faster");
  EXPECT_FALSE(standing_of(decisions, 1).open.has_value());
  decisions.push_back(tries(9, "4", "2"));
  standing = standing_of(decisions, 1);
  ASSERT_TRUE(standing.open.has_value());
  decisions.push_back(judgement(*standing.open, /*keeps=*/false, 13, "slower"));
  EXPECT_EQ(decisions.back(), (Decision{13, SetSetting{kMicroBatchKey, "2", "4"}, "tuning: slower"}));
  standing = standing_of(decisions, 1);
  EXPECT_FALSE(standing.open.has_value());
  EXPECT_THAT(standing.tried.at(kMicroBatchKey), ElementsAre(1, 2, 4));
  EXPECT_EQ(standing.num_tries, 2);
  EXPECT_THAT(standing_of(decisions, 14).tried, IsEmpty());  // of another phase
}

TEST(TuningStanding, WhatTheOperatorSetsIsHis) {
  const Decision by_hand{7, SetSetting{kMicroBatchKey, "8", "2"}, "the operator wants it"};
  const Standing standing = standing_of({tries(5, "2", "1"), by_hand}, 1);
  EXPECT_FALSE(standing.open.has_value());
  EXPECT_THAT(standing.of_operator, ElementsAre(kMicroBatchKey));
}

TEST(TuningProposal, IsTheFirstRuleThatApplies) {
  ProposalFacts facts{.micro_batch_size = 2,
                      .tokens_of_sequence = 100,
                      .bigger = {{4, 11}, {8, 22}, {12, 33}},
                      .threads = 2,
                      .most_threads = 4};
  EXPECT_EQ(propose_setting(facts).setting, "train.threads=4");
  facts.most_threads = 2;
  EXPECT_EQ(propose_setting(facts).setting, "train.micro_batch_size=12");
  EXPECT_THAT(propose_setting(facts).why, HasSubstr("needs 33 bytes"));
  facts.tokens_of_sequence = 200;
  EXPECT_EQ(propose_setting(facts).setting,
            "train.micro_batch_size=8");  // the smallest with a thousand tokens
  facts.bigger.clear();
  EXPECT_EQ(propose_setting(facts).setting, "");
  EXPECT_THAT(propose_setting(facts).why, HasSubstr("no larger micro-batch fits"));
  facts.tokens_of_sequence = 500;
  EXPECT_EQ(propose_setting(facts).setting, "");
  EXPECT_THAT(propose_setting(facts).why, HasSubstr("1000 tokens"));
}

}  // namespace
}  // namespace athanor::tests::tuning_choice_test
