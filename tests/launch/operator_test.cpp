// What an operator asks of a launcher with real processes, through the file in the run's folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <variant>

#include "athanor/base/clock.h"
#include "athanor/control/operator_messages.h"
#include "athanor/control/packet_channel.h"
#include "athanor/launch/diagnosis/stacks.h"
#include "athanor/launch/job_file.h"
#include "athanor/launch/operator_desk.h"
#include "athanor/observe/event_log.h"
#include "launcher.h"
#include "support/temporary_folder.h"

namespace athanor::tests::operator_test {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 3;
const std::string kNothingLeft = "LEFT 0 descriptors, 0 children, 0 sockets\n";

void wait_until(const std::function<bool()>& condition) {
  for (const double deadline = now_seconds() + 600.0; !condition();) {
    if (now_seconds() > deadline) throw std::runtime_error("it never happened");
    usleep(1000);
  }
}

// A job that goes on until it is told to stop.
class Operator : public ::testing::Test {
 protected:
  LauncherOptions options(std::vector<std::string> environment = {}, int max_restarts = 10) const {
    environment.push_back("TEST_FOLDER=" + folder.path(""));
    return {.num_ranks = kRanks,
            .arguments = {"recover", "1000000000", "1", "ordered"},
            .environment = std::move(environment),
            .max_restarts = max_restarts,
            .min_ranks = 2};
  }
  PacketChannel connect() const {
    wait_until([&] { return read_job_file(folder.path("")).has_value(); });
    return PacketChannel::connect(read_job_file(folder.path(""))->socket);
  }
  static OperatorAnswer receive(PacketChannel& channel) {
    while (true) {
      pollfd polled{channel.fd(), POLLIN, 0};
      poll(&polled, 1, -1);
      if (const auto packet = channel.receive()) return decode_operator_answer(packet->text);
      if (channel.closed()) throw std::runtime_error("no answer");
    }
  }
  OperatorAnswer ask(const OperatorRequest& request) const {
    PacketChannel channel = connect();
    channel.send(encode(request));
    while (true) {
      OperatorAnswer answer = receive(channel);
      if (!std::holds_alternative<Working>(answer)) return answer;
    }
  }
  std::string done(const OperatorRequest& request) const {
    const OperatorAnswer answer = ask(request);
    const auto* refused = std::get_if<Refused>(&answer);
    return refused != nullptr ? "refused: " + refused->why : std::get<Done>(answer).what;
  }
  std::string refusal(const OperatorRequest& request) const { return std::get<Refused>(ask(request)).why; }
  JobStatus status() const { return std::get<JobStatus>(ask(AskStatus{})); }
  // All of so many ranks train, and have done a step.
  JobStatus status_of(int ranks) const {
    JobStatus job;
    wait_until([&] {
      job = status();
      return std::ssize(job.ranks) == ranks &&
             std::all_of(job.ranks.begin(), job.ranks.end(), [](const RankStatus& one) {
               return one.state == RankState::training && one.step > 0 && one.pid > 0;
             });
    });
    return job;
  }
  void expect_stops(Launcher& launcher) const {
    kill(launcher.pid(), SIGTERM);
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 75) << launcher.text;
    EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
    EXPECT_FALSE(read_job_file(folder.path("")));
  }
  std::string events() const {
    std::ifstream file(folder.path("events.jsonl"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryFolder folder;
};

TEST_F(Operator, SeesEachRank) {
  Launcher launcher(options());
  const JobStatus job = status_of(kRanks);
  EXPECT_EQ(job.run, folder.path(""));
  EXPECT_EQ(job.generation, 0);
  EXPECT_GT(job.step, 0);
  EXPECT_GT(job.goodput, 0.9);
  std::set<int64_t> processes;
  for (const RankStatus& one : job.ranks) {
    EXPECT_EQ(one.rank, std::ssize(processes));
    EXPECT_EQ(one.node, 0);
    processes.insert(one.pid);
  }
  EXPECT_EQ(processes.size(), 3u);
  expect_stops(launcher);
}

TEST_F(Operator, KillsARankAndTheOthersStay) {
  Launcher launcher(options());
  const JobStatus before = status_of(kRanks);
  EXPECT_EQ(done(KillRank{1}), "rank 1 was killed by signal 9 (SIGKILL): the job recovers");
  EXPECT_THAT(events(), HasSubstr("\"failure\""));
  const JobStatus after = status_of(kRanks);
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(after.ranks[static_cast<size_t>(rank)].pid == before.ranks[static_cast<size_t>(rank)].pid,
              rank != 1);
  EXPECT_EQ(after.generation, 1);
  EXPECT_LT(after.goodput, 1.0);
  expect_stops(launcher);
}

TEST_F(Operator, ScalesDownAndUpAgain) {
  Launcher launcher(options());
  status_of(kRanks);
  EXPECT_EQ(done(ScaleTo{3}), "the job has 3 ranks already");
  EXPECT_EQ(done(ScaleTo{2}), "the job goes on with 2 ranks instead of 3");
  const JobStatus two = status_of(2);
  wait_until([&] { return done(ScaleTo{3}).find("refused") == std::string::npos; });
  const JobStatus three = status_of(3);
  EXPECT_EQ(three.ranks[0].pid, two.ranks[0].pid);
  EXPECT_EQ(three.ranks[1].pid, two.ranks[1].pid);
  EXPECT_THAT(events(), HasSubstr("3 ranks instead of 2"));
  expect_stops(launcher);
}

// The order is given to the generation after that in which a rank died before it had followed it.
TEST_F(Operator, GetsACheckpointAlthoughARankDies) {
  Launcher launcher(options());
  status_of(kRanks);
  EXPECT_THAT(done(SaveNow{}), HasSubstr("saved step "));
  EXPECT_EQ(status_of(kRanks).generation, 2);
  EXPECT_THAT(done(SaveNow{}), HasSubstr("saved step "));
  EXPECT_EQ(status_of(kRanks).generation, 3);
  expect_stops(launcher);
  EXPECT_THAT(launcher.text, HasSubstr("rank 1 was killed by signal 9 (SIGKILL) at step"));
}

TEST_F(Operator, HearsOfACheckpointThatCannotBeWritten) {
  Launcher launcher(options({"TEST_SAVE_ERROR=the disk is full"}));
  status_of(kRanks);
  EXPECT_THAT(refusal(SaveNow{}), HasSubstr("could not be saved: the disk is full"));
  expect_stops(launcher);
}

TEST_F(Operator, GoesBack) {
  Launcher launcher(options());
  const JobStatus before = status_of(kRanks);
  wait_until([&] { return status().step > 10'000; });
  EXPECT_EQ(done(GoBack{3}), "the job goes on after step 3");
  const JobStatus after = status_of(kRanks);
  EXPECT_EQ(after.generation, 1);
  EXPECT_LT(after.step, 10'000);
  EXPECT_EQ(after.ranks[0].pid, before.ranks[0].pid);
  EXPECT_THAT(events(), HasSubstr("the operator goes back to step 3"));
  // It is an order once: a failure after it goes on from memory.
  wait_until([&] { return status().step > 20'000; });
  done(KillRank{2});
  EXPECT_GT(status_of(kRanks).step, 20'000);
  expect_stops(launcher);
}

TEST_F(Operator, WhatIsRefusedTouchesNothing) {
  Launcher launcher(options());
  const JobStatus before = status_of(kRanks);
  EXPECT_EQ(refusal(ScaleTo{1}), "got 1 ranks, expected launch.min_ranks = 2 to launch.max_ranks = 3");
  EXPECT_THAT(refusal(ScaleTo{4}), HasSubstr("got 4 ranks"));
  EXPECT_EQ(refusal(KillRank{3}), "got rank 3, expected 0 to 2");
  for (const std::string& wrong :
       {std::string("garbage"), std::string("{\"message\":\"hello\"}"),
        std::string("{\"message\":\"scale\",\"num_ranks\":-1}"), std::string(kPacketBytes, '[')}) {
    PacketChannel channel = connect();
    channel.send(wrong);
    EXPECT_THAT(std::get<Refused>(receive(channel)).why, HasSubstr("control message"));
  }
  { PacketChannel hasty = connect(); }  // goes without a word
  {
    PacketChannel hasty = connect();
    hasty.send(encode(OperatorRequest(AskStatus{})));
  }
  status();  // whoever came before is gone, and leaves no place free when the others are there
  std::vector<PacketChannel> many;  // they say nothing, and further ones are not let in
  for (size_t i = 0; i < 2 * kMostOperators; ++i) many.push_back(connect());
  EXPECT_THROW(ask(AskStatus{}), std::exception);
  many.clear();
  wait_until([&] {
    try {
      return status().generation == 0;
    } catch (const std::exception&) {
      return false;
    }
  });
  const JobStatus after = status_of(kRanks);
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(after.ranks[rank].pid, before.ranks[rank].pid);
  EXPECT_EQ(after.generation, 0);
  EXPECT_GE(after.step, before.step);
  expect_stops(launcher);
}

TEST_F(Operator, NothingChangesWhereNoRankIsStartedAgain) {
  Launcher launcher(options({}, /*max_restarts=*/0));
  status_of(kRanks);
  EXPECT_THAT(refusal(ScaleTo{2}), HasSubstr("launch.max_restarts is 0"));
  EXPECT_THAT(refusal(SaveNow{}), HasSubstr("launch.max_restarts is 0"));
  EXPECT_THAT(refusal(GoBack{1}), HasSubstr("launch.max_restarts is 0"));
  EXPECT_EQ(done(KillRank{2}), "rank 2 was killed by signal 9 (SIGKILL): the job ends");
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
}

// The process of the job's master: the launcher's child that is no rank.
pid_t master_of(pid_t launcher) {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(launcher) + "/task")) {
    std::ifstream children(entry.path() / "children");
    for (pid_t child = 0; children >> child;) {
      std::ifstream file("/proc/" + std::to_string(child) + "/cmdline");
      std::string line;
      for (std::string word; std::getline(file, word, '\0');) line += word + " ";
      if (line.find("launch_worker master ") != std::string::npos) return child;
    }
  }
  return -1;
}

// Whatever becomes of the master, the ranks train on, and what happens to them is decided by the next one.
TEST_F(Operator, TheMasterIsKilledAndStopped) {
  Launcher launcher(options());
  const JobStatus before = status_of(kRanks);
  for (int time = 0; time < 10; ++time) {
    const pid_t master = master_of(launcher.pid());
    ASSERT_GT(master, 0);
    kill(master, time % 5 == 4 ? SIGSTOP : SIGKILL);
    wait_until([&, step = status().step] { return status().step > step; });
    EXPECT_NE(master_of(launcher.pid()), master);
  }
  const JobStatus after = status_of(kRanks);
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(after.ranks[rank].pid, before.ranks[rank].pid);
  EXPECT_EQ(after.generation, 0);
  // A rank dies while nobody decides.
  for (const int signal : {SIGKILL, SIGSTOP}) {
    const JobStatus now = status_of(kRanks);
    pid_t master = -1;  // which kill() would take for all processes
    wait_until([&] { return (master = master_of(launcher.pid())) > 0; });
    kill(master, signal);
    kill(static_cast<pid_t>(now.ranks[2].pid), SIGKILL);
    wait_until([&] { return status().generation > now.generation; });
    status_of(kRanks);
  }
  expect_stops(launcher);
  const std::string said = "the master of the job has ended: another one takes up from its journal\n";
  EXPECT_THAT(launcher.text, HasSubstr(said));
  // The launcher's other process writes what happened: each line is whole, and there once.
  const std::string text = events();
  const std::vector<RunEvent> all = read_events(text);
  EXPECT_EQ(std::ssize(all), std::count(text.begin(), text.end(), '\n'));
  const auto count = [&](const char* name) {
    return std::count_if(all.begin(), all.end(), [&](const RunEvent& one) { return one.event == name; });
  };
  EXPECT_EQ(count("start"), 1);
  EXPECT_EQ(count("failure"), 2);
  EXPECT_EQ(count("restart"), 2);
  EXPECT_EQ(count("recovered"), 2);
  EXPECT_EQ(count("stop"), 1);
  EXPECT_EQ(count("end"), 1);
  EXPECT_GE(count("master"), 12);
}

// Both are about ranks without a launcher; an operator tells which processes they are.
class Orphans : public Operator {
 protected:
  void SetUp() override { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  void TearDown() override { prctl(PR_SET_CHILD_SUBREAPER, 0); }
};

// Whichever of them notices it first: the others end with it, and rank 0 may end before it has noticed anything.
TEST_F(Orphans, SaveAndEndWhereTheLauncherIsKilled) {
  Launcher launcher(options());
  const JobStatus job = status_of(kRanks);
  kill(launcher.pid(), SIGKILL);
  launcher.finish();
  for (const RankStatus& one : job.ranks) {
    int status = 0;
    EXPECT_EQ(waitpid(static_cast<pid_t>(one.pid), &status, 0), one.pid);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 75);
  }
  Launcher next(options());  // nothing is in its way
  wait_until([&] { return read_job_file(folder.path(""))->pid == next.pid(); });
  status_of(kRanks);
  expect_stops(next);
}

// Likewise: rank 0, whose output the test could read, need not be the one that hears nothing.
TEST_F(Orphans, SaveAndEndWhereTheLauncherIsStopped) {
  Launcher launcher(options({"TEST_SILENCE_MS=1500"}));
  const JobStatus job = status_of(kRanks);
  kill(launcher.pid(), SIGSTOP);
  for (const RankStatus& one : job.ranks)
    wait_until([&] { return process_state(static_cast<pid_t>(one.pid)) == 'Z'; });
  kill(launcher.pid(), SIGCONT);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 75) << launcher.text;
  EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
}

TEST_F(Operator, ASecondLauncherOfTheRunIsRefused) {
  LauncherOptions second = options();
  second.run_folder = folder.path("");
  {
    Launcher launcher(options());
    const JobStatus before = status_of(kRanks);
    Launcher refused(second);
    refused.finish();
    EXPECT_EQ(refused.exit_code, 98);
    EXPECT_THAT(refused.text, HasSubstr("another launcher trains this run (process " +
                                        std::to_string(launcher.pid()) + " on "));
    Launcher late(options());  // that learns of the folder when its ranks have begun
    late.finish();
    EXPECT_EQ(late.exit_code, 1);
    EXPECT_THAT(late.text, HasSubstr("another launcher trains this run"));
    const JobStatus after = status_of(kRanks);
    EXPECT_EQ(after.ranks[0].pid, before.ranks[0].pid);
    EXPECT_EQ(after.generation, 0);
  }  // killed: its file stays
  ASSERT_TRUE(read_job_file(folder.path("")));
  Launcher launcher(second);
  wait_until([&] { return read_job_file(folder.path(""))->pid == launcher.pid(); });
  status_of(kRanks);
  expect_stops(launcher);
}

}  // namespace
}  // namespace athanor::tests::operator_test
