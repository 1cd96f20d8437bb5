// Runs with parameter servers, as a user starts them: real processes over shared memory and over Gloo.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <set>

#include "apps/small_run.h"

namespace athanor::tests::parameter_server_test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> servers(int number, const std::string& consistency,
                                 const std::vector<std::string>& more = {}) {
  return std::vector<std::string>{"parameter_server.servers=" + std::to_string(number),
                                  "parameter_server.consistency=" + consistency} +
         more;
}

std::string schedule(const Workplace& place, const std::string& name, int server) {
  return place.read(run_file(name, "schedule/server" + std::to_string(server) + ".csv"));
}

// The launcher's ranks over their shared segment ("auto"), or over TCP.
void train_over(const std::string& transport, const Workplace& place, const std::string& name,
                const std::vector<std::string>& sets, int ranks) {
  ProgramOptions options;
  options.environment = {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + reserved_port()};
  const std::vector<std::string> over = {"parallel.transport=" + transport};
  const Outcome outcome = place.run(launch_arguments(ranks, name, sets + over), options);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
}

class ParameterServers : public ::testing::Test {
 protected:
  void SetUp() override { make_small_run(place); }
  Workplace place;
};

TEST_F(ParameterServers, SynchronousRunsHaveTheBitsOfDataParallelism) {
  const std::vector<std::string> six = {"train.steps=6", "checkpoint.every_steps=3", "train.eval_every=3"};
  for (const std::string reduce : {"parallel.reduce=tree", "parallel.reduce=fast"}) {
    train(place, "dp", six + std::vector{reduce}, 2);
    const History expected = history(place, "dp");
    train(place, "shm", six + servers(1, "sync", {reduce}), 3);
    EXPECT_EQ(history(place, "shm"), expected) << reduce;
    EXPECT_EQ(report(place, "shm")["valid_loss_last"], report(place, "dp")["valid_loss_last"]);
    train_over("gloo", place, "gloo", six + servers(2, "sync", {reduce}), 4);
    EXPECT_EQ(history(place, "gloo"), expected) << reduce;
    place.remove("runs");
  }
}

TEST_F(ParameterServers, OfWorkersThatShareSequencesHaveTheBitsOfDataParallelism) {
  const std::vector<std::string> sets = {"parallel.cp=2", "train.steps=6", "checkpoint.every_steps=3",
                                         "schedule.decay=constant"};
  train(place, "dp", sets + std::vector<std::string>{"parallel.zero_stage=1"}, 4);
  train(place, "t", sets + servers(2, "sync", {"train.steps=3"}), 6);
  train(place, "t", sets + servers(1, "sync"), 5);
  EXPECT_EQ(history(place, "t"), history(place, "dp"));
}

TEST_F(ParameterServers, InF16TheySkipWhatOverflowsAndResume) {
  const std::vector<std::string> half = {"precision.compute=f16", "precision.loss_scale_window=3",
                                         "precision.loss_scale=1e7", "schedule.decay=constant"};
  train(place, "dp", half, 2);
  train(place, "t", half + servers(2, "sync", {"train.steps=5"}), 4);
  train(place, "t", half + servers(1, "sync"), 3);
  EXPECT_EQ(history(place, "t"), history(place, "dp"));
  EXPECT_EQ(digest(place, checkpoint_of("t", kSteps)), digest(place, checkpoint_of("dp", kSteps)));
  const auto async = half + servers(2, "async", {"parallel.reduce=fast"});
  train(place, "a", async + std::vector<std::string>{"train.steps=5"}, 4);
  train(place, "a", async, 4);
  std::set<double> scales;
  for (const Json& line : metrics(place, "a")) scales.insert(line["loss_scale"].get<double>());
  EXPECT_GE(scales.size(), 2u);
  for (const int server : {0, 1}) {
    const std::string log = schedule(place, "a", server);
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1 + 2 * kSteps);
  }
}

TEST_F(ParameterServers, MicroBatchesBySpeedChangeNoBit) {
  const std::vector<std::string> micro_batches = {"train.micro_batch_size=1", "schedule.decay=constant"};
  train(place, "dp", micro_batches, 2);
  const auto by_speed = micro_batches + std::vector<std::string>{"parallel.load_balance=speed",
                                                                 "parallel.load_balance_every=2"};
  train(place, "t", by_speed + servers(2, "sync", {"train.steps=7"}), 5);
  train(place, "t", by_speed + servers(1, "sync"), 3);
  EXPECT_EQ(history(place, "t"), history(place, "dp"));
}

// Data parallelism and servers take over what the other's workers owe.
TEST_F(ParameterServers, CompressedRunsHaveTheBitsOfDataParallelismAndResume) {
  for (const std::string kind : {"bf16", "int8"}) {
    const std::vector<std::string> coded = {"parallel.reduce=fast", "compression.method=" + kind,
                                            "compression.warmup_steps=2", "schedule.decay=constant"};
    const std::vector<std::string> part = {"train.steps=5"};
    train(place, "dp", coded + std::vector<std::string>{"parallel.zero_stage=1"}, 2);
    train(place, "t", coded + servers(2, "sync", part), 4);
    train(place, "t", coded + servers(1, "sync"), 3);
    EXPECT_EQ(history(place, "t"), history(place, "dp")) << kind;
    const double planned = report(place, "t")["planned_bytes"], peak = report(place, "t")["peak_bytes"];
    EXPECT_NEAR(peak, planned, 0.03 * planned) << kind;
    train(place, "back", coded + servers(1, "sync", part), 3);
    train(place, "back", coded + std::vector<std::string>{"parallel.zero_stage=1"}, 2);
    EXPECT_EQ(history(place, "back"), history(place, "dp")) << kind;
    const auto async = coded + servers(2, "async");
    train(place, "first", async, 4);
    train(place, "again", async + std::vector<std::string>{"parameter_server.replay=runs/first/schedule"}, 4);
    EXPECT_EQ(digest(place, checkpoint_of("again", kSteps)), digest(place, checkpoint_of("first", kSteps)));
    place.remove("runs");
  }
}

// A run goes from servers to none and to more of them; its steps are those of one that was never stopped.
TEST_F(ParameterServers, AnyLayoutResumesTheirCheckpointsAndBack) {
  const std::vector<std::string> constant = {"schedule.decay=constant"};
  train(place, "whole", constant, 1);
  train(place, "t", constant + servers(1, "sync", {"train.steps=4"}), 3);
  train(place, "t", constant + std::vector<std::string>{"train.steps=8", "parallel.zero_stage=3"}, 2);
  train(place, "t", constant + servers(2, "sync"), 3);
  EXPECT_EQ(history(place, "t"), history(place, "whole"));
}

TEST_F(ParameterServers, AsynchronousRunsAreRunAgainFromTheirSchedule) {
  for (const std::string consistency : {"async", "bounded"})
    for (const std::string transport : {"shm", "gloo"}) {
      auto sets = servers(2, consistency, {"parallel.reduce=fast"});
      if (consistency == "bounded") sets.emplace_back("parameter_server.staleness=2");
      train_over(transport, place, "first", sets, 4);
      train_over(transport, place, "again",
                 sets + std::vector<std::string>{"parameter_server.replay=runs/first/schedule"}, 4);
      EXPECT_EQ(digest(place, checkpoint_of("again", kSteps)), digest(place, checkpoint_of("first", kSteps)))
          << consistency << " over " << transport;
      for (const int server : {0, 1}) {
        const std::string log = schedule(place, "first", server);
        EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1 + 2 * kSteps);
        EXPECT_EQ(schedule(place, "again", server), log);
      }
      EXPECT_EQ(metrics(place, "first").back().at("tokens"), kSteps * kTokensPerStep);
      place.remove("runs");
    }
}

// A stop is a commit of its own; what was logged goes on where the checkpoint stands.
TEST_F(ParameterServers, AsynchronousRunsStopAndGoOn) {
  const auto sets = servers(1, "async", {"parallel.reduce=fast", "schedule.decay=constant"});
  Program job = place.start(launch_arguments(3, "t", sets + std::vector<std::string>{"train.steps=1000000"}));
  ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= 5; }));
  job.signal(SIGTERM);
  const Outcome outcome = job.finish();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.all();
  EXPECT_EQ(report(place, "t")["status"], "interrupted");
  const int64_t stopped = num_lines(place, "t");
  EXPECT_TRUE(place.exists(checkpoint_of("t", stopped)));
  train(place, "t", sets + std::vector<std::string>{"train.steps=" + std::to_string(stopped + 3)}, 3);
  EXPECT_EQ(num_lines(place, "t"), stopped + 3);
  const std::string log = schedule(place, "t", 0);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1 + 2 * (stopped + 3));
}

TEST_F(ParameterServers, WhatDoesNotFitIsRefusedByName) {
  const auto refuse = [&](int ranks, const std::vector<std::string>& sets, const std::string& text) {
    const Outcome outcome = place.run(launch_arguments(ranks, "t", sets));
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  refuse(2, servers(2, "sync"), "parameter_server.servers: got 2 in a world of 2 ranks, expected fewer");
  refuse(3, servers(1, "async"),
         "parallel.reduce: got \"tree\" with parameter_server.consistency = \"async\"");
  refuse(3, servers(1, "sync", {"parallel.zero_stage=1"}),
         "parameter_server.servers: got 1 with parallel.zero_stage = 1");
  refuse(3, servers(1, "sync", {"parallel.tp=2"}), "parameter_server.servers: got 1 with parallel.tp = 2");
  refuse(4, servers(2, "sync", {"parallel.cp=2", "parallel.dp=2"}), "parallel.dp");
  refuse(3, servers(1, "sync", {"parameter_server.replay=x"}),
         "parameter_server.replay: got 'x' with parameter_server.consistency");
  refuse(2, {"parameter_server.replay=x"},
         "parameter_server.replay: got 'x' without parameter_server.servers");
  refuse(3, servers(1, "async", {"parallel.reduce=fast", "parameter_server.replay=nowhere"}),
         "parameter_server.replay: got 'nowhere' without 'nowhere/server0.csv'");
}

}  // namespace
}  // namespace athanor::tests::parameter_server_test
