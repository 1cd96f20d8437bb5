// `athanor launch` with real ranks: one job that starts, fails, is stopped and goes on as one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "apps/small_run.h"
#include "support/places.h"

namespace athanor::tests::launch_test {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kNoRestarts = {"launch.max_restarts=0"};

class Launch : public ::testing::Test {
 protected:
  void SetUp() override { make_small_run(place); }
  void resumes_and_equals_an_undisturbed_run(int ranks) {
    const auto sets = until(num_lines(place, "t") + 2);
    train(place, "t", sets, ranks);
    train(place, "whole", sets);
    EXPECT_EQ(history(place, "t"), history(place, "whole"));
  }
  Workplace place;
};

TEST_F(Launch, AKilledRankIsStartedAgainAndTheOthersStay) {
  for (const int victim : {0, 1, 2}) {
    place.remove("runs");
    Program job = place.start(launch_arguments(3, "t", kEndless));
    ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= 6; }));
    const auto before = ranks_of(job.pid());
    ASSERT_EQ(kill(before.at(victim), SIGKILL), 0);
    const int64_t killed_at = num_lines(place, "t");
    ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= killed_at + 5; }))
        << job.errors_so_far();
    const auto after = ranks_of(job.pid());
    for (const int rank : {0, 1, 2})
      EXPECT_EQ(after.at(rank) == before.at(rank), rank != victim) << "rank " << rank;
    job.signal(SIGINT);
    const Outcome outcome = job.finish();
    EXPECT_EQ(outcome.exit_code, 75) << outcome.all();
    EXPECT_TRUE(nothing_left_running());
    EXPECT_THAT(outcome.err,
                HasSubstr("rank " + std::to_string(victim) + " was killed by signal 9 (SIGKILL)"));
    int64_t last_step = 0, last_generation = 0;
    for (const Json& line : metrics(place, "t")) {
      EXPECT_EQ(line["step"], ++last_step);
      EXPECT_GE(line["generation"], last_generation);
      last_generation = line["generation"];
      EXPECT_TRUE(last_generation == 0 ? last_step <= killed_at + 2 : last_step >= killed_at)
          << "what was done is not done again: step " << last_step << " of generation " << last_generation;
    }
    EXPECT_EQ(last_generation, 1);
    resumes_and_equals_an_undisturbed_run(2);
  }
}

// Ranks train on while the process is gone that decides about them, and what it has counted is not lost.
TEST_F(Launch, AKilledMasterHarmsNothing) {
  Program job = place.start(launch_arguments(2, "t", kEndless));
  const auto trains_on = [&] {
    return job.wait_until(
        [&, before = num_lines(place, "t")] { return num_lines(place, "t") >= before + 3; });
  };
  ASSERT_TRUE(trains_on());
  ASSERT_EQ(kill(ranks_of(job.pid()).at(1), SIGKILL), 0);
  ASSERT_TRUE(job.wait_until(
      [&] { return place.read("runs/t/events.jsonl").find("recovered") != std::string::npos; }));
  const auto ranks = ranks_of(job.pid());
  for (int time = 0; time < 5; ++time) {
    pid_t master = -1;
    ASSERT_TRUE(job.wait_until([&] { return (master = master_of(job.pid())) > 0; }));
    ASSERT_EQ(kill(master, SIGKILL), 0);
    ASSERT_TRUE(trains_on()) << job.errors_so_far();
  }
  EXPECT_EQ(ranks_of(job.pid()), ranks);
  job.signal(SIGINT);
  EXPECT_EQ(job.finish().exit_code, 75);
  EXPECT_TRUE(nothing_left_running());
  const Json said = report(place, "t");
  EXPECT_EQ(said["num_incidents"], 1);
  EXPECT_EQ(said["incidents"][0]["rank"], 1);
  EXPECT_GT(said["goodput"], 0.0);
  EXPECT_LT(said["goodput"], 1.0);
  std::map<std::string, int> count;
  std::istringstream lines(place.read("runs/t/events.jsonl"));
  for (std::string line; std::getline(lines, line);) ++count[Json::parse(line)["event"].get<std::string>()];
  const std::map<std::string, int> expected = {{"start", 1},      {"measured", 1},  {"failure", 1},
                                               {"restart", 1},    {"recovered", 1}, {"stop", 1},
                                               {"checkpoint", 1}, {"end", 1}};
  EXPECT_GE(count["master"], 5);
  count.erase("master");
  count.erase("warm-up");                                  // of a machine that is busy
  count["checkpoint"] = std::min(count["checkpoint"], 1);  // as many as there were steps for
  EXPECT_EQ(count, expected);
  resumes_and_equals_an_undisturbed_run(2);
}

TEST_F(Launch, WithoutRestartsAKilledRankEndsTheJobAndIsNamed) {
  for (const int victim : {0, 1, 2}) {
    place.remove("runs");
    Program job = place.start(launch_arguments(3, "t", kEndless + kNoRestarts));
    ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= 6; }));
    const auto ranks = ranks_of(job.pid());
    ASSERT_EQ(ranks.size(), 3u);
    ASSERT_EQ(kill(ranks.at(victim), SIGKILL), 0);
    const Outcome outcome = job.finish();
    EXPECT_TRUE(nothing_left_running());
    EXPECT_EQ(outcome.exit_code, 1) << outcome.all();
    EXPECT_THAT(outcome.err, HasSubstr("athanor: error: rank " + std::to_string(victim) +
                                       " was killed by signal 9 (SIGKILL)\n    where: process " +
                                       std::to_string(ranks.at(victim)) + " on "));
    EXPECT_THAT(outcome.err, HasSubstr("\n    why: somebody killed it"));
    resumes_and_equals_an_undisturbed_run(2);
  }
}

TEST_F(Launch, CtrlCSavesAndEndsWell) {
  for (const int number : {SIGINT, SIGTERM}) {
    Program job = place.start(launch_arguments(2, "t", kEndless));
    const int64_t before = num_lines(place, "t");
    ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= before + 5; }));
    job.signal(number);
    const Outcome outcome = job.finish();
    EXPECT_EQ(outcome.exit_code, 75) << outcome.all();
    EXPECT_TRUE(nothing_left_running());
    EXPECT_TRUE(place.exists(checkpoint_of("t", num_lines(place, "t"))));
    EXPECT_EQ(report(place, "t")["status"], "interrupted");
  }
  resumes_and_equals_an_undisturbed_run(3);
}

TEST_F(Launch, CtrlCAtOneRankStopsAll) {
  Program job = place.start(launch_arguments(3, "t", kEndless));
  ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= 5; }));
  ASSERT_EQ(kill(ranks_of(job.pid()).at(2), SIGINT), 0);
  const Outcome outcome = job.finish();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.all();
  EXPECT_TRUE(place.exists(checkpoint_of("t", num_lines(place, "t"))));
}

TEST_F(Launch, RanksSaveAndEndWhereTheirLauncherIsKilled) {
  Program job = place.start(launch_arguments(4, "t", kEndless));
  ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= 5; }));
  job.signal(SIGKILL);
  EXPECT_EQ(job.finish().signal, SIGKILL);
  EXPECT_TRUE(nothing_left_running(/*patient=*/true));
  EXPECT_TRUE(place.exists(checkpoint_of("t", num_lines(place, "t"))));
  EXPECT_EQ(Json::parse(place.read("runs/t/report.run.json"))["status"], "interrupted");
  EXPECT_EQ(report(place, "t")["status"], "interrupted");  // as its agent says
  resumes_and_equals_an_undisturbed_run(3);
  EXPECT_EQ(report(place, "t")["status"], "finished");
}

TEST_F(Launch, TheRanksAreMeasuredBeforeTheyMeet) {
  train(place, "t", {"train.steps=2"}, 3);
  Json measured, start;
  std::istringstream lines(place.read("runs/t/events.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line);
    if (event["event"] == "start") start = event;
    if (event["event"] == "measured") measured = event;
  }
  ASSERT_FALSE(measured.is_null() || start.is_null());
  for (const char* part : {"matrix products ", " GFLOP/s, memory ", " GB/s, disk ", " MB/s"})
    EXPECT_THAT(measured["cause"].get<std::string>(), HasSubstr(part));
  EXPECT_GT(measured["detect_seconds"], 0.0);
  EXPECT_EQ(measured["generation"], 0);
  EXPECT_FALSE(place.exists(".warm_up.rank0"));
  EXPECT_FALSE(place.exists("runs/.warm_up.rank0"));
  train(place, "off", {"train.steps=2", "launch.warm_up=off"}, 3);
  EXPECT_THAT(place.read("runs/off/events.jsonl"), ::testing::Not(HasSubstr("measured")));
  EXPECT_EQ(history(place, "t"), history(place, "off"));
}

// One sentence, with the rank, the path and what the system says; the run has not begun, and leaves nothing.
TEST_F(Launch, ADiskThatIsFullForOneRankEndsTheJobBeforeItsFirstStep) {
  ProgramOptions options;
  options.environment = {"LD_PRELOAD=" + built("tests/apps_faults.so"), "ATHANOR_FAULT=full:1",
                         "ATHANOR_FAULT_RANK=1"};
  const Outcome outcome = place.run(launch_arguments(2, "t", {"train.steps=2"}), options);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("athanor: error: rank 1: cannot "));
  EXPECT_THAT(outcome.err, HasSubstr(".warm_up.rank1': No space left on device\n  hint: make room for the "
                                     "checkpoints in 'runs/t', or set train.runs to another disk\n"));
  EXPECT_EQ(outcome.err.find("error:"), outcome.err.rfind("error:")) << outcome.err;
  EXPECT_FALSE(place.exists("runs"));
  EXPECT_TRUE(nothing_left_running());
}

// Law 8: lateness is reported and waited for.
TEST_F(Launch, ALateRankIsNamedAndWaitedFor) {
  Program job = place.start(launch_arguments(3, "t", kEndless));
  ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= 5; }));
  const pid_t late = ranks_of(job.pid()).at(1);
  ASSERT_EQ(kill(late, SIGSTOP), 0);
  const std::regex report("rank 0 has waited ([2-9]|[0-9]{2,})\\.[0-9] s for rank 1");
  EXPECT_TRUE(job.wait_until([&] { return std::regex_search(job.errors_so_far(), report); }))
      << job.errors_so_far();
  ASSERT_EQ(kill(late, SIGCONT), 0);
  const int64_t stopped_at = num_lines(place, "t");
  ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= stopped_at + 3; }));
  job.signal(SIGINT);
  EXPECT_EQ(job.finish().exit_code, 75);
  resumes_and_equals_an_undisturbed_run(2);
}

TEST_F(Launch, ARankThatStaysStoppedFailsTheJobWhereNothingIsStartedAgain) {
  Program job = place.start(launch_arguments(3, "t", kEndless + kNoRestarts));
  ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= 5; }));
  ASSERT_EQ(kill(ranks_of(job.pid()).at(1), SIGSTOP), 0);
  const Outcome outcome = job.finish();
  EXPECT_EQ(outcome.exit_code, 1) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("error: rank 1 was stopped for "));
  EXPECT_TRUE(nothing_left_running());
}

TEST_F(Launch, KilledAtAnyFileOperationOfAnyRank) {
  const History whole = [&] {
    train(place, "whole");
    return history(place, "whole");
  }();
  for (const int rank : {0, 1})
    for (const int at : {3, 9, 14, 30, 47}) {
      const std::string name = "r" + std::to_string(rank) + "o" + std::to_string(at);
      ProgramOptions options;
      options.environment = {"LD_PRELOAD=" + built("tests/apps_faults.so"),
                             "ATHANOR_FAULT=kill:" + std::to_string(at),
                             "ATHANOR_FAULT_RANK=" + std::to_string(rank)};
      const Outcome outcome = place.run(launch_arguments(2, name, kNoRestarts), options);
      EXPECT_TRUE(nothing_left_running());
      if (outcome.exit_code != 0) {  // it had so many
        EXPECT_EQ(outcome.exit_code, 1) << outcome.all();
        EXPECT_THAT(outcome.err,
                    HasSubstr("error: rank " + std::to_string(rank) + " was killed by signal 9 (SIGKILL)"));
      }
      train(place, name, {}, 2);
      EXPECT_EQ(history(place, name), whole) << name;
    }
}

// Without a warm-up, which has something to say where the machine is busy.
TEST_F(Launch, WhatIsWrongWithTheConfigIsSaidOnce) {
  const auto refused = [&](int ranks, const std::string& set, const std::vector<std::string>& pieces) {
    expect_refused(place.run(launch_arguments(ranks, "t", {"launch.warm_up=off", set})), 2, pieces);
  };
  refused(3, "train.stepz=5", {"train.stepz", "steps"});
  refused(6, "train.steps=5", {"6 ranks", "5 micro-batches"});
  refused(2, "parallel.dp=3", {"parallel.dp", "3", "2"});
  EXPECT_TRUE(nothing_left_running());
  EXPECT_FALSE(place.exists("runs/t/metrics.jsonl"));
}

TEST_F(Launch, WrongCommandLines) {
  expect_refused(place.run({"launch", "-n", "0", "--", "train", "run.toml"}), 2, {"0"});
  expect_refused(place.run({"launch", "-n", "x", "--", "train", "run.toml"}), 2, {"x"});
  expect_refused(place.run({"launch", "-n", "100000", "--", "train", "run.toml"}), 2, {"100000"});
  expect_refused(place.run({"launch", "-n", "2"}), 2, {"command"});
  expect_refused(place.run({"launch", "-n", "2", "--", "evaluate", "runs/t"}), 2, {"evaluate", "train"});
  expect_refused(place.run({"launch", "--", "train", "run.toml"}), 2, {"--ranks"});
}

TEST_F(Launch, ARankAloneIsToldHowToStart) {
  const Outcome outcome = place.run(train_arguments("t"), {.environment = {"RANK=0", "WORLD_SIZE=2"}});
  expect_refused(outcome, 2, {"athanor launch"});
}

}  // namespace
}  // namespace athanor::tests::launch_test
