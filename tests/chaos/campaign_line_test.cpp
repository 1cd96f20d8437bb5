// The lines of a campaign, and when it has passed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/chaos/campaign.h"
#include "athanor/chaos/faults.h"

namespace athanor::tests::campaign_line_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TrialResult trial(int64_t number, bool passes, std::optional<double> recovered = 0.2) {
  TrialResult result{.trial = number, .fault = "kill", .num_ranks = 3, .ranks = {1}, .at_seconds = 1.5};
  result.seen = {.at_step = 40, .best_step = 100, .last_step = 100};
  result.seen.exit_code = passes ? 0 : 1;
  result.seen.compared = passes;
  result.seen.lost_steps = 0;
  result.seen.survivors_kept_pids = true;
  result.seen.detect_seconds = 0.01;
  result.seen.recover_seconds = recovered;
  if (!passes) result.why = {"one", "two"};
  return result;
}

TrialResult control(bool passes) {
  TrialResult result = trial(0, passes);
  result.is_control = true;
  return result;
}

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

TEST(TrialLine, HasAllFields) {
  const Json line = trial_line(trial(3, true), 7);
  EXPECT_THAT(keys(line), ElementsAre("trial", "seed", "fault", "control", "ranks", "rank", "at_seconds",
                                      "at_step", "exit_code", "bitwise", "lost_steps", "survivors_kept_pids",
                                      "detect_seconds", "recover_seconds", "leftovers", "passed", "why"));
  EXPECT_EQ(line["trial"], 3);
  EXPECT_EQ(line["seed"], 7);
  EXPECT_EQ(line["ranks"], 3);
  EXPECT_EQ(line["rank"], 1);
  EXPECT_EQ(line["bitwise"], true);
  EXPECT_EQ(line["passed"], true);
  EXPECT_EQ(line["why"], "");
  EXPECT_EQ(line["leftovers"], Json::array());
}

TEST(TrialLine, WhatWasNotSeenIsNull) {
  TrialResult result = trial(3, false, std::nullopt);
  result.ranks = {};
  result.seen.survivors_kept_pids.reset();
  const Json line = trial_line(result, 7);
  EXPECT_TRUE(line["recover_seconds"].is_null());
  EXPECT_TRUE(line["survivors_kept_pids"].is_null());
  EXPECT_TRUE(line["rank"].is_null());
  EXPECT_EQ(line["bitwise"], false) << "it was not compared";
  EXPECT_EQ(line["why"], "one; two");
  result.ranks = {2, 0};
  EXPECT_EQ(trial_line(result, 7)["rank"], Json::array({2, 0}));
}

TEST(Summary, CountsAndSpreads) {
  std::vector<TrialResult> results = {control(false)};
  for (int64_t i = 0; i < 100; ++i) results.push_back(trial(i, true, 0.01 * static_cast<double>(i + 1)));
  const Json line = summary_line(results), row = line["summary"][0];
  EXPECT_EQ(line["passed"], true);
  EXPECT_EQ(row["trials"], 100);
  EXPECT_EQ(row["passed"], 100);
  EXPECT_EQ(row["redid_a_step"], 0);
  EXPECT_EQ(row["control_failed"], true);
  EXPECT_EQ(row["recover_seconds"]["count"], 100);
  EXPECT_DOUBLE_EQ(row["recover_seconds"]["p50"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(row["recover_seconds"]["p99"].get<double>(), 0.99);
  EXPECT_DOUBLE_EQ(row["recover_seconds"]["max"].get<double>(), 1.0);
  EXPECT_THAT(summary_text(line), HasSubstr("kill: 100 passed of 100; recovered p50 0.500 s"));
}

TEST(Summary, ATrialThatFailsFailsTheCampaign) {
  const CampaignResult result{.results = {control(false), trial(0, true), trial(1, false)}};
  EXPECT_FALSE(result.passed());
  EXPECT_EQ(summary_line(result.results)["passed"], false);
  EXPECT_EQ(summary_line(result.results)["summary"][0]["passed"], 1);
}

TEST(Summary, AControlThatPassesFailsTheCampaign) {
  const CampaignResult result{.results = {control(true), trial(0, true)}};
  EXPECT_FALSE(result.passed());
  const Json line = summary_line(result.results);
  EXPECT_EQ(line["passed"], false);
  EXPECT_THAT(summary_text(line), HasSubstr("NEGATIVE CONTROL PASSED"));
  EXPECT_THAT(sentence_of(result.results[0]), HasSubstr("must fail"));
  EXPECT_THAT(sentence_of(control(false)), HasSubstr("failed, as it must: one"));
}

TEST(Summary, NothingRecovered) {
  const Json line = summary_line({trial(0, false, std::nullopt)});
  EXPECT_TRUE(line["summary"][0]["recover_seconds"].is_null());
  EXPECT_THAT(summary_text(line), Not(HasSubstr("recovered")));
}

TEST(Header, SaysWhatWasTried) {
  CampaignOptions options{.seed = 9, .trials = 4, .faults = find_faults({"kill", "stop-term"}, 2)};
  options.job.num_ranks = 2;
  options.job.config = "small.toml";
  options.job.settings = {"parallel.tp=2"};
  Undisturbed undisturbed;
  undisturbed.steps = {{1, 0, 0}, {2, 0, 10'000'000}, {3, 0, 30'000'000}};
  const Json line = header_line(options, undisturbed);
  EXPECT_EQ(line["seed"], 9);
  EXPECT_EQ(line["faults"], Json::array({"kill", "stop-term"}));
  EXPECT_EQ(line["settings"], Json::array({"parallel.tp=2"}));
  EXPECT_EQ(line["steps"], 3);
  EXPECT_DOUBLE_EQ(line["training_seconds"].get<double>(), 0.03);
  EXPECT_THAT(line["hardware"].get<std::string>(), HasSubstr("processors"));
}

TEST(Quantile, NearestRank) {
  EXPECT_EQ(quantile({3.0, 1.0, 2.0}, 0.5), 2.0);
  EXPECT_EQ(quantile({3.0, 1.0, 2.0}, 0.99), 3.0);
  EXPECT_EQ(quantile({4.0}, 0.5), 4.0);
}

}  // namespace
}  // namespace athanor::tests::campaign_line_test
