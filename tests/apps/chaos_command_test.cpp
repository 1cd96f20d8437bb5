// `athanor chaos` with real jobs: what it strikes goes on, its controls fail, nothing of it stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/small_run.h"

namespace athanor::tests::chaos_command_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Chaos : public ::testing::Test {
 protected:
  void SetUp() override { make_small_run(place); }
  std::vector<std::string> arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"chaos", "run.toml", "-n", "2", "--set", "train.steps=30"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // And the control fails. `fact` of both is true. `orphans`: processes lose their parent, and are this one's to reap.
  void expect_two_trials_hold(const char* kind, const char* seed, const char* fact, bool orphans = false) {
    const Outcome outcome =
        place.run(arguments({"--seed", seed, "--trials", "2", "--faults", kind, "--json"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    const Json document = Json::parse(outcome.out);
    ASSERT_EQ(document["trials"].size(), 3u);
    for (const int i : {1, 2}) {
      const Json trial = document["trials"][static_cast<size_t>(i)];
      EXPECT_EQ(trial["passed"], true) << trial;
      EXPECT_EQ(trial[fact], true) << trial;
    }
    EXPECT_TRUE(nothing_left_running(/*patient=*/orphans));
  }
  Workplace place;
};

TEST_F(Chaos, ARankIsKilledAndNothingIsLost) {
  const auto before = place.list(".");
  const Outcome outcome =
      place.run(arguments({"--seed", "3", "--trials", "2", "--faults", "kill", "--json"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  const Json document = Json::parse(outcome.out);
  EXPECT_THAT(keys(document), ElementsAre("header", "trials", "summary", "passed"));
  EXPECT_EQ(document["passed"], true);
  EXPECT_EQ(document["header"]["steps"], 30);
  ASSERT_EQ(document["trials"].size(), 3u);
  const Json control = document["trials"][0];
  EXPECT_EQ(control["control"], true);
  EXPECT_EQ(control["passed"], false);
  EXPECT_EQ(control["exit_code"], 1);
  for (const int i : {1, 2}) {
    const Json trial = document["trials"][static_cast<size_t>(i)];
    EXPECT_EQ(trial["fault"], "kill");
    EXPECT_EQ(trial["passed"], true) << trial;
    EXPECT_EQ(trial["bitwise"], true);
    EXPECT_EQ(trial["survivors_kept_pids"], true);
    EXPECT_GE(trial["detect_seconds"], 0.0);
    EXPECT_THAT(trial["leftovers"], IsEmpty());
  }
  EXPECT_EQ(document["summary"][0]["control_failed"], true);
  EXPECT_EQ(place.list("."), before) << "a folder has stayed";
  EXPECT_TRUE(nothing_left_running());
}

TEST_F(Chaos, AGradientIsNotANumberAndTheStepRunsAgain) {
  const Outcome outcome =
      place.run(arguments({"--seed", "5", "--trials", "2", "--faults", "nan-gradient", "--json"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  const Json document = Json::parse(outcome.out);
  ASSERT_EQ(document["trials"].size(), 3u);
  EXPECT_EQ(document["trials"][0]["exit_code"], 1) << "without the guard the run ends";
  EXPECT_THAT(document["trials"][0]["why"].get<std::string>(), HasSubstr("is not finite"));
  for (const int i : {1, 2}) {
    const Json trial = document["trials"][static_cast<size_t>(i)];
    EXPECT_EQ(trial["passed"], true) << trial;
    EXPECT_EQ(trial["bitwise"], true);
    EXPECT_EQ(trial["survivors_kept_pids"], true);
  }
}

TEST_F(Chaos, ARankThatIsStoppedIsNamedAndReplaced) {
  const Outcome outcome =
      place.run(arguments({"--seed", "2", "--trials", "1", "--faults", "stop", "--json"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  const Json document = Json::parse(outcome.out);
  ASSERT_EQ(document["trials"].size(), 2u);
  EXPECT_EQ(document["trials"][0]["exit_code"], 1) << "without restarts it ends the job";
  const Json trial = document["trials"][1];
  EXPECT_EQ(trial["passed"], true) << trial;
  EXPECT_EQ(trial["bitwise"], true);
  EXPECT_EQ(trial["survivors_kept_pids"], true);
  EXPECT_TRUE(nothing_left_running());
}

TEST_F(Chaos, ARankThatIsPausedIsLeftAlone) {
  const Outcome outcome =
      place.run(arguments({"--seed", "4", "--trials", "2", "--faults", "pause", "--json"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  const Json document = Json::parse(outcome.out);
  ASSERT_EQ(document["trials"].size(), 3u);
  EXPECT_THAT(document["trials"][0]["why"].get<std::string>(), HasSubstr("taken for a failure"));
  for (const int i : {1, 2})
    EXPECT_EQ(document["trials"][static_cast<size_t>(i)]["passed"], true) << document;
}

TEST_F(Chaos, ACollectiveThatOneRankDoesNotMakeIsNamedAndMadeAgain) {
  for (const char* kind : {"skip", "reorder", "mismatch", "delay"})
    expect_two_trials_hold(kind, "6", "survivors_kept_pids");
}

TEST_F(Chaos, ABitThatFlipsIsFound) {
  for (const char* kind : {"flip-slot", "flip-checkpoint", "flip-parameter", "flip-gradient"})
    expect_two_trials_hold(kind, "8", "bitwise");
}

TEST_F(Chaos, ADiskAndASizeThatChange) {
  for (const char* kind : {"full", "scale"}) {
    const Outcome outcome = place.run(
        arguments({"--set", "train.steps=300", "--seed", "1", "--trials", "1", "--faults", kind, "--json"}));
    if (outcome.exit_code == 2) {
      EXPECT_THAT(outcome.err, HasSubstr(" needs ")) << outcome.all();  // it says that it cannot here
      continue;
    }
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    const Json trial = Json::parse(outcome.out)["trials"][1];
    EXPECT_EQ(trial["passed"], true) << trial;
    EXPECT_EQ(trial["bitwise"], true);
  }
  EXPECT_TRUE(nothing_left_running());
}

// A rank dies between two system calls, or lacks what it needs for a new world.
TEST_F(Chaos, ARankThatLacksWhatItNeeds) {
  expect_two_trials_hold("kill-at-call", "3", "survivors_kept_pids");
  for (const char* kind : {"memory", "descriptors"}) expect_two_trials_hold(kind, "3", "bitwise");
}

TEST_F(Chaos, ADiskGoesWrongAndTheTrainingGoesOn) {
  for (const char* kind : {"disk-error", "disk-short", "disk-hang"})
    expect_two_trials_hold(kind, "2", "bitwise");
}

TEST_F(Chaos, TheLauncherIsGoneOrStandsStill) {
  expect_two_trials_hold("kill-launcher", "4", "bitwise", /*orphans=*/true);
  expect_two_trials_hold("stop-master", "4", "bitwise");
}

TEST_F(Chaos, AClockJumpsAndNobodyMinds) {
  expect_two_trials_hold("clock", "2", "bitwise");
}

TEST_F(Chaos, ASoakStrikesOneRunAgainAndAgain) {
  const std::vector<std::string> soak = {
      "chaos",    "run.toml",
      "-n",       "3",
      "--set",    "train.steps=70",
      "--soak",   "6",
      "--faults", "kill,kill-agent,kill-master,skip,nan-gradient,flip-slot"};
  expect_refused(place.run(soak), 2, {"launch.max_restarts", "40"});
  auto enough = soak;
  enough.insert(enough.end(), {"--set", "launch.max_restarts=40", "--json"});
  const Outcome outcome = place.run(enough);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  const Json document = Json::parse(outcome.out);
  EXPECT_EQ(document["trials"].size(), 6u);
  EXPECT_EQ(document["summary"]["faults"], 6);
  EXPECT_GT(document["summary"]["goodput"], 0.0);
  EXPECT_EQ(document["passed"], true) << document["summary"];
  EXPECT_TRUE(nothing_left_running());
}

TEST_F(Chaos, LinesGoToAFileAndAreAdded) {
  for (const char* kind : {"stop-term", "kill-all"}) {
    const Outcome outcome =
        place.run(arguments({"--trials", "1", "--faults", kind, "-o", "lines.jsonl", "--keep"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("1 passed of 1"));
  }
  const std::string text = place.read("lines.jsonl");
  std::vector<std::string> first_keys;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    first_keys.push_back(keys(Json::parse(text.substr(at, text.find('\n', at) - at))).front());
  EXPECT_THAT(first_keys,
              ElementsAre("campaign", "trial", "trial", "summary", "campaign", "trial", "trial", "summary"));
}

TEST_F(Chaos, WhatIsRefused) {
  expect_refused(place.run(arguments({"--faults", "kil"})), 2, {"'kil'", "'kill'"});
  expect_refused(place.run(arguments({"--faults", "kill-several"})), 2, {"-n 3"});
  expect_refused(place.run(arguments({"--set", "launch.max_restarts=0"})), 2, {"launch.max_restarts"});
  expect_refused(place.run(arguments({"--set", "train.stepz=3"})), 2, {"train.stepz"});
  expect_refused(place.run(arguments({"--set", "parallel.dp=7"})), 2, {"undisturbed", "parallel.dp"});
  expect_refused(place.run(arguments({"--trials", "0"})), 2, {"0"});
  EXPECT_FALSE(place.exists("runs"));
}

}  // namespace
}  // namespace athanor::tests::chaos_command_test
