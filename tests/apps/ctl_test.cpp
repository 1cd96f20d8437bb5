// `athanor ctl` and a job that it steers: the operator's commands, and that the run keeps its bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "apps/small_run.h"

namespace athanor::tests::ctl_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Checkpoints where the operator wants them alone, and none of them goes.
const std::vector<std::string> kSets =
    kEndless + std::vector<std::string>{"checkpoint.every_steps=0", "checkpoint.keep=0"};

class Ctl : public ::testing::Test {
 protected:
  void SetUp() override { make_small_run(place); }
  std::string ctl(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"ctl", "runs/t"});
    return place.output_of(arguments);
  }
  Json status() const { return Json::parse(ctl({"status", "--json"})); }
  // It goes on with so many ranks, all of which train.
  void wait_for_ranks(Program& job, size_t ranks) const {
    ASSERT_TRUE(job.wait_until([&] {
      const Json now = status();
      if (now["ranks"].size() != ranks) return false;
      for (const Json& one : now["ranks"])
        if (one["state"] != "training") return false;
      return true;
    })) << job.errors_so_far();
  }
  void wait_for_steps(Program& job, int64_t count) const {
    const int64_t before = num_lines(place, "t");
    ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= before + count; }))
        << job.errors_so_far();
  }
  void begin(Program& job) const {
    ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= 5; })) << job.errors_so_far();
  }
  void refuses(const std::vector<std::string>& arguments, int code,
               const std::vector<std::string>& pieces) const {
    std::vector<std::string> all = {"ctl", "runs/t"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    expect_refused(place.run(all), code, pieces);
  }
  // `tolerance`: of losses, relative; 0: all of the history has the same bits.
  void stop_and_compare(Program& job, bool orphans = false, double tolerance = 0.0) const {
    job.signal(SIGINT);
    const Outcome outcome = job.finish();
    EXPECT_EQ(outcome.exit_code, 75) << outcome.all();
    EXPECT_TRUE(nothing_left_running(/*patient=*/orphans));
    EXPECT_FALSE(place.exists("runs/t/launcher.json"));
    auto sets = until(num_lines(place, "t") + 2);
    if (tolerance > 0.0) sets.emplace_back("optimizer.lr=1e-5");
    train(place, "t", sets, 2);
    train(place, "whole", sets);
    if (tolerance == 0.0) {
      EXPECT_EQ(history(place, "t"), history(place, "whole"));
    }
    const auto own = metrics(place, "t"), whole = metrics(place, "whole");
    ASSERT_EQ(own.size(), whole.size());
    for (size_t i = 0; i < own.size(); ++i) {
      const double loss = whole[i]["loss"];
      EXPECT_NEAR(own[i]["loss"], loss, tolerance * loss) << "step " << i + 1;
    }
  }
  Workplace place;
};

TEST_F(Ctl, SteersARunThatKeepsItsBits) {
  Program job = place.start(launch_arguments(3, "t", kSets));
  begin(job);
  const Json first = status();
  EXPECT_THAT(keys(first), ElementsAre("run", "step", "generation", "goodput", "ranks"));
  EXPECT_EQ(first["run"], "runs/t");
  EXPECT_EQ(first["generation"], 0);
  ASSERT_EQ(first["ranks"].size(), 3u);
  EXPECT_THAT(keys(first["ranks"][1]), ElementsAre("rank", "pid", "node", "state", "step"));
  const auto processes = ranks_of(job.pid());
  for (const int rank : {0, 1, 2})
    EXPECT_EQ(first["ranks"][static_cast<size_t>(rank)]["pid"], processes.at(rank));
  EXPECT_THAT(ctl({"status"}), HasSubstr("training"));

  EXPECT_EQ(ctl({"kill", "1"}), "rank 1 was killed by signal 9 (SIGKILL): the job recovers\n");
  wait_for_ranks(job, 3);
  EXPECT_NE(ranks_of(job.pid()).at(1), processes.at(1));
  wait_for_steps(job, 3);
  for (const std::string size : {"2", "1", "3"}) {  // a world of one notices, too
    EXPECT_THAT(ctl({"scale", size}), HasSubstr("the job goes on with " + size + " ranks"));
    wait_for_ranks(job, static_cast<size_t>(std::stoi(size)));
    wait_for_steps(job, 3);
  }
  EXPECT_EQ(ranks_of(job.pid()).at(0), processes.at(0));

  const Json saved = Json::parse(ctl({"snapshot", "--json"}));
  EXPECT_THAT(saved["done"].get<std::string>(), HasSubstr("saved runs/t/checkpoints/step_"));
  wait_for_ranks(job, 3);
  wait_for_steps(job, 3);
  const std::string newer = ctl({"snapshot"});
  ASSERT_EQ(place.list("runs/t/checkpoints").size(), 2u);
  const std::string step = std::to_string(std::stoll(place.list("runs/t/checkpoints")[0].substr(5)));
  wait_for_ranks(job, 3);
  wait_for_steps(job, 3);
  EXPECT_EQ(ctl({"rollback", step}), "the job goes on after step " + step + "\n");
  EXPECT_EQ(place.list("runs/t/checkpoints").size(), 1u);
  EXPECT_EQ(place.list("runs/t/abandoned").size(), 1u);
  wait_for_ranks(job, 3);
  wait_for_steps(job, 3);
  EXPECT_EQ(ranks_of(job.pid()).at(0), processes.at(0));
  stop_and_compare(job);
}

// Of the stages that the config asks for only those remain that the ranks have room for, which keeps the order of sums.
TEST_F(Ctl, ScalesAPipelineToFewerStages) {
  std::vector<std::string> sets = kSets;
  sets.insert(sets.end(), {"parallel.pp=2", "parallel.reduce=tree"});
  Program job = place.start(launch_arguments(2, "t", sets));
  begin(job);
  for (const std::string size : {"1", "2"}) {
    EXPECT_THAT(ctl({"scale", size}), HasSubstr("the job goes on with " + size + " ranks"));
    wait_for_ranks(job, static_cast<size_t>(std::stoi(size)));
    wait_for_steps(job, 3);
  }
  EXPECT_FALSE(place.exists("runs/t/decisions.jsonl"));
  stop_and_compare(job);
}

TEST_F(Ctl, ScalesTensorParallelismWhereItMayChangeTheOrderOfSums) {
  std::vector<std::string> sets = kSets;
  sets.insert(sets.end(),
              {"parallel.tp=2", "optimizer.lr=1e-5"});  // a rate that does not multiply differences
  {
    Program job = place.start(launch_arguments(2, "t", sets));
    begin(job);
    refuses({"scale", "1"}, 1, {"parallel.tp: got 2", "launch.allow_inexact = true"});
    EXPECT_EQ(status()["generation"], 0);
    stop_and_compare(job, /*orphans=*/false, /*tolerance=*/1e-6);
  }
  sets.push_back("launch.allow_inexact=true");
  Program job = place.start(launch_arguments(2, "t", sets));
  wait_for_steps(job, 3);
  EXPECT_THAT(ctl({"scale", "1"}), HasSubstr("the job goes on with 1 ranks"));
  wait_for_ranks(job, 1);
  wait_for_steps(job, 3);
  EXPECT_THAT(place.read("runs/t/decisions.jsonl"),
              HasSubstr(R"("from":"tp 2, cp 1, ep 1","to":"tp 1, cp 1, ep 1")"));
  stop_and_compare(job, /*orphans=*/false, /*tolerance=*/1e-6);
}

// In its own phase its groups are of one rank, and no collective of a step tells it anything.
TEST_F(Ctl, ALoneRankInALaterPhaseHearsOfIt) {
  place.write("run.toml",
              place.read("run.toml") +
                  "[[phase]]\nname = \"a\"\nsteps = 3\n[[phase]]\nname = \"b\"\nsteps = 999997\n");
  Program job = place.start(launch_arguments(1, "t", kSets));
  begin(job);
  const auto before = ranks_of(job.pid());
  EXPECT_THAT(ctl({"snapshot"}), HasSubstr("saved runs/t/checkpoints/step_"));
  wait_for_steps(job, 3);
  EXPECT_EQ(ranks_of(job.pid()), before);
  EXPECT_EQ(status()["generation"], 1);
  job.signal(SIGINT);
  EXPECT_EQ(job.finish().exit_code, 75);
}

TEST_F(Ctl, WhatItRefusesLeavesTheJobAsItIs) {
  Program job = place.start(
      launch_arguments(2, "t", kSets + std::vector<std::string>{"launch.min_ranks=2", "launch.max_ranks=9"}));
  begin(job);
  const auto before = ranks_of(job.pid());
  refuses({"scale", "1"}, 1, {"launch.min_ranks = 2"});
  refuses({"scale", "10"}, 1, {"10"});
  refuses({"scale", "7"}, 1, {"7 ranks", "5 micro-batches"});
  refuses({"scale", "-1"}, 1, {"-1"});
  refuses({"kill", "2"}, 1, {"rank 2"});
  refuses({"rollback", "3"}, 1, {"step 3", "there is none"});
  refuses({"scale", "x"}, 2, {"x"});
  refuses({"scale"}, 2, {"N"});
  refuses({"dance"}, 2, {"dance"});
  refuses({}, 2, {"got no command", "status"});
  expect_refused(place.run(launch_arguments(2, "t", kSets)), 1, {"another launcher trains this run"});
  expect_refused(place.run({"ctl", "runs/other", "status"}), 1, {"runs/other"});
  wait_for_steps(job, 3);
  EXPECT_EQ(ranks_of(job.pid()), before);
  EXPECT_EQ(status()["generation"], 0);
  stop_and_compare(job);
}

// As a stop at that step and another one behind --set; and a run in one process that follows the decisions has its bits.
TEST_F(Ctl, SetsASettingAsADecisionOfTheRun) {
  Program job = place.start(launch_arguments(2, "t", kSets));
  begin(job);
  const std::string told = ctl({"set", "optimizer.lr=0.004"});
  ASSERT_THAT(told, HasSubstr("on the job has optimizer.lr=0.004"));
  const int64_t first = std::stoll(told.substr(std::string("from step ").size()));
  wait_for_ranks(job, 2);
  wait_for_steps(job, 3);
  kill(ranks_of(job.pid()).at(1), SIGKILL);  // whoever comes anew learns of it
  wait_for_steps(job, 3);
  job.signal(SIGINT);
  EXPECT_EQ(job.finish().exit_code, 75);
  const int64_t last = num_lines(place, "t");
  const Json decision = Json::parse(place.read("runs/t/decisions.jsonl"));
  EXPECT_EQ(decision["step"], first);
  EXPECT_EQ(decision["decision"], "set");
  EXPECT_EQ(decision["key"], "optimizer.lr");
  EXPECT_EQ(decision["value"], "0.004");
  EXPECT_THAT(place.read("runs/t/config.resolved.toml"), HasSubstr("lr                      = 0.004 "));

  train(place, "u", until(first - 1));
  train(place, "u", until(last) + std::vector<std::string>{"optimizer.lr=0.004"});
  EXPECT_EQ(history(place, "t"), history(place, "u"));
  auto arguments = train_arguments("v", until(last));
  arguments.insert(arguments.end(), {"--decisions", "runs/t/decisions.jsonl"});
  place.output_of(arguments);
  EXPECT_EQ(history(place, "t"), history(place, "v"));

  // A resume keeps it, for the settings have the value that it replaced; another one was said later, and counts.
  train(place, "t", until(last + 2), 2);
  train(place, "u", until(last + 2) + std::vector<std::string>{"optimizer.lr=0.004"});
  EXPECT_EQ(history(place, "t"), history(place, "u"));
  for (const char* name : {"t", "u"})
    train(place, name, until(last + 4) + std::vector<std::string>{"optimizer.lr=0.02"});
  EXPECT_EQ(history(place, "t"), history(place, "u"));
}

TEST_F(Ctl, SettingsThatMayNotChangeAreRefused) {
  Program job = place.start(launch_arguments(2, "t", kSets));
  begin(job);
  for (const std::string setting :
       {"model.hidden_size=64", "train.seed=2", "data.seq_len=16", "optimizer.name=sgd",
        "train.global_batch_size=20", "parallel.tp=2", "train.steps=9"})
    refuses({"set", setting}, 1, {setting, "cannot change while the run trains"});
  refuses({"set", "launch.max_restarts=3"}, 1, {"launch.max_restarts is read when athanor launch starts"});
  refuses({"set", "train.micro_batch_size=5"}, 1,
          {"changes the order of sums", "launch.allow_inexact = true"});
  refuses({"set", "optimizer.lr=-1"}, 1, {"optimizer.lr", "-1"});
  refuses({"set", "optimizer.lr=fast"}, 1, {"optimizer.lr", "fast"});
  refuses({"set", "optimizer.lrr=1"}, 1, {"lrr", "lr"});
  refuses({"set", "optimizer.lr"}, 1, {"no '='"});
  refuses({"set"}, 2, {"KEY=VALUE"});
  EXPECT_EQ(status()["generation"], 0);
  EXPECT_FALSE(place.exists("runs/t/decisions.jsonl"));
  stop_and_compare(job);
}

// The launcher does not plan the memory and the layout of the ranks; they meet, and refuse it.
TEST_F(Ctl, AMicroBatchThatTheRanksCannotHaveIsRefused) {
  std::vector<std::string> sets = kSets;
  sets.emplace_back("launch.allow_inexact=true");
  Program job = place.start(launch_arguments(2, "t", sets));
  begin(job);
  const Outcome outcome = place.run({"ctl", "runs/t", "set", "train.micro_batch_size=10"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("error: ctl set: train.micro_batch_size = 10: parallel.dp: got 2 ranks"));
  wait_for_steps(job, 2);
  EXPECT_EQ(status()["generation"], 1);
  stop_and_compare(job);
}

TEST_F(Ctl, EventsAreReadWithoutAJob) {
  train(place, "t");
  refuses({"status"}, 1, {"no launcher trains 'runs/t' now", "finished"});
  EXPECT_THAT(ctl({"events"}), HasSubstr("  end: finished\n"));
  place.remove("runs/t/events.jsonl");
  refuses({"events"}, 1, {"events.jsonl"});
  train(place, "t", {"train.steps=14"}, 2);
  const std::string text = ctl({"events"});
  EXPECT_THAT(text, HasSubstr("generation   0  start\n"));
  EXPECT_THAT(text, HasSubstr("step       14  generation   0  checkpoint\n"));  // told by rank 0
  EXPECT_THAT(text, HasSubstr("  end: finished\n"));
  place.write("runs/t/events.jsonl", place.read("runs/t/events.jsonl") + "torn {");
  EXPECT_EQ(ctl({"events"}), text);
  EXPECT_EQ(ctl({"events", "--json"}) + "torn {", place.read("runs/t/events.jsonl"));
  refuses({"kill", "0"}, 1, {"no launcher trains"});
  refuses({"rollback", "4"}, 1, {"no launcher trains"});
}

// The launcher is killed with its agent: its file stays, nobody listens, and the next launch takes it over.
// Another agent takes its place, and does what was asked; but the answer has nowhere to go.
TEST_F(Ctl, HearsThatTheAgentWasKilledBeforeItAnswered) {
  Program job = place.start(launch_arguments(2, "t", kSets));
  begin(job);
  const pid_t rank = ranks_of(job.pid()).at(1);
  kill(rank, SIGSTOP);  // so that the ranks do not meet
  Program snapshot = place.start({"ctl", "runs/t", "snapshot"});
  ASSERT_TRUE(snapshot.wait_until([&] { return !snapshot.errors_so_far().empty(); })) << job.errors_so_far();
  kill(agent_of(job.pid()), SIGKILL);
  const Outcome outcome = snapshot.finish();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("was replaced before it answered"));
  EXPECT_THAT(outcome.err, HasSubstr("athanor ctl runs/t events"));
  kill(rank, SIGCONT);
  ASSERT_TRUE(job.wait_until([&] {
    return place.exists("runs/t/checkpoints") && !place.list("runs/t/checkpoints").empty();
  })) << job.errors_so_far();
  stop_and_compare(job, /*orphans=*/true);  // the master of the agent that was killed
}

TEST_F(Ctl, OfALauncherThatWasKilled) {
  {
    Program job = place.start(launch_arguments(2, "t", kSets));
    begin(job);
    const pid_t agent = agent_of(job.pid());
    job.signal(SIGSTOP);  // it replaces nobody
    kill(agent, SIGKILL);
    job.signal(SIGKILL);
    job.finish();
    EXPECT_TRUE(nothing_left_running(/*patient=*/true));
  }
  EXPECT_TRUE(place.exists("runs/t/launcher.json"));
  refuses({"status"}, 1, {"no launcher trains 'runs/t' now", "is gone"});
  Program job = place.start(launch_arguments(2, "t", kSets));
  wait_for_steps(job, 3);
  EXPECT_EQ(status()["ranks"].size(), 2u);
  stop_and_compare(job);
}

}  // namespace
}  // namespace athanor::tests::ctl_test
