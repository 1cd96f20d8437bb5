// The launcher with real processes: what users and the survivors hear of each way to fail, and that nothing
// stays.
#include "athanor/launch/agent.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

extern "C" {  // glibc 2.36 forgot it
#include <sys/pidfd.h>
}

#include "athanor/base/check.h"
#include "athanor/base/error.h"
#include "launcher.h"

namespace athanor::tests::agent_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Agent, RanksMeetAndEndWell) {
  for (int n : {1, 2, 5}) {
    Launcher launcher({.num_ranks = n, .arguments = {"sum"}});
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
    EXPECT_EQ(launcher.out, "sum " + std::to_string(n * (n + 1) / 2) + "\n");
    EXPECT_EQ(launcher.text, "RESULT -1:  HINT \nLEFT 0 descriptors, 0 children, 0 sockets\n");
  }
}

TEST(Agent, WhatARankIsGiven) {
  Launcher launcher({.num_ranks = 3, .arguments = {"print"}});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  EXPECT_EQ(launcher.out, "out of 0\n");  // the others' is dropped
  EXPECT_THAT(launcher.text, AllOf(HasSubstr("0/3 local 0/3 input 0 kept yes group 1\nsame on all\n"),
                                   HasSubstr("[rank 1] 1/3 local 1/3 input 0 kept yes group 1\n"),
                                   HasSubstr("[rank 2] 2/3 local 2/3 input 0 kept yes group 1\n"),
                                   Not(HasSubstr("] same on all"))));
}

// There the segment and the slots are named in the environment, and the agent of a host starts nothing again.
TEST(Agent, WhatARankOfSeveralHostsIsGiven) {
  Launcher launcher({.num_ranks = 2,
                     .arguments = {"print"},
                     .environment = {"MASTER_ADDR=node0"},
                     .max_restarts = 10,
                     .first_rank = 2,
                     .world_size = 4});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  EXPECT_THAT(launcher.text, AllOf(HasSubstr("2/4 local 0/2 input 0 kept yes group 1\n"),
                                   HasSubstr("[rank 1] 3/4 local 1/2 input 0 kept yes group 1\n")));
  Launcher killed({.num_ranks = 2,
                   .arguments = {"die", "1", std::to_string(SIGKILL)},
                   .environment = {"MASTER_ADDR=node0"},
                   .max_restarts = 10,
                   .first_rank = 0,
                   .world_size = 4});
  killed.finish();
  EXPECT_EQ(killed.exit_code, 1);
  EXPECT_THAT(killed.text, HasSubstr("RESULT 1: rank 1 was killed by signal 9 (SIGKILL) HINT \n"));
}

TEST(Agent, AKilledRankEndsTheJobAndIsNamed) {
  for (const char* victim : {"0", "1", "2"}) {
    Launcher launcher({.num_ranks = 3, .arguments = {"die", victim, std::to_string(SIGKILL)}});
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 1);
    const std::string rank = victim;
    EXPECT_THAT(
        launcher.text,
        AllOf(HasSubstr(fmt::format("RESULT {0}: rank {0} was killed by signal 9 (SIGKILL) HINT \n", rank)),
              HasSubstr("\n    why: somebody killed it"),
              HasSubstr("\n    others: 2 ranks failed after it")));
    if (rank != "0") {  // what rank 0 says is shown as it comes
      EXPECT_THAT(launcher.text, HasSubstr("athanor: error: rank " + rank + " was lost: "));
    }
  }
}

TEST(Agent, ExitCodeAndLastWordsOfTheOneThatFailed) {
  Launcher coded({.num_ranks = 2, .arguments = {"exit", "1", "7"}});
  coded.finish();
  EXPECT_EQ(coded.exit_code, 1);
  EXPECT_THAT(coded.text, HasSubstr("RESULT 1: rank 1 exited with code 7 HINT"));
  // The other rank hears that it has left and may end sooner; the one that threw is named all the same.
  for (int round = 0; round < 5; ++round) {
    Launcher thrown({.num_ranks = 2, .arguments = {"throw", "1"}});
    thrown.finish();
    EXPECT_EQ(thrown.exit_code, 1);
    EXPECT_THAT(thrown.text, HasSubstr("RESULT 1: rank 1 exited with code 1: the loss is not finite HINT"));
  }
}

TEST(Agent, ARankThatNeverJoinsIsNamed) {
  Launcher launcher({.num_ranks = 2, .arguments = {"exit_before_joining", "1", "5"}});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, AllOf(HasSubstr("RESULT 1: rank 1 exited with code 5"),
                                   HasSubstr("rank 1 was lost: exited with code 5")));
}

TEST(Agent, ARankThatLeavesTooEarlyIsNamedByThoseWhoNeedIt) {
  for (const char* mode : {"leave", "exit_before_joining"}) {
    Launcher launcher({.num_ranks = 2, .arguments = {mode, "1", "0"}});
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 1);
    EXPECT_THAT(launcher.text,
                HasSubstr("rank 0 exited with code 1: rank 1 was lost: it has left the group"));
  }
}

TEST(Agent, AWrongConfigIsSaidOnceAndIsExitCode2) {
  Launcher launcher({.num_ranks = 4, .arguments = {"config"}});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 2);
  const std::string said = launcher.text.substr(0, launcher.text.find("RESULT"));
  EXPECT_EQ(said, "athanor: error: run.toml: unknown key 'stepz'\n  hint: did you mean 'steps'?\n");
  EXPECT_THAT(launcher.text,
              HasSubstr("exited with code 2: run.toml: unknown key 'stepz' HINT did you mean 'steps'?"));
}

// Ranks that do not react get SIGTERM, then SIGKILL.
TEST(Agent, GraceEnds) {
  Launcher launcher({.num_ranks = 3, .arguments = {"die_stubborn", "1"}, .grace_ms = 50});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, HasSubstr("RESULT 1: rank 1 was killed by signal 9 (SIGKILL)"));
}

// The rank that caused it is named although another one ended first.
TEST(Agent, AnAbortBlamesTheRankThatAborted) {
  Launcher launcher({.num_ranks = 2, .arguments = {"abort", "1"}});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, AllOf(HasSubstr("athanor: error: rank 1 aborted group 'world': disk full"),
                                   HasSubstr("RESULT 1: rank 1 exited with code 1: disk full")));
}

TEST(Agent, WhatNobodyUnderstandsEndsTheJob) {
  const std::pair<const char*, const char*> cases[] = {
      {"garbage", "no JSON object"},
      {R"({"message":"hello","version":7})", "'hello': version: got 7, expected 1"},
      {R"({"message":"ready","generation":-1,"why":""})", "the first message is no 'hello'"},
  };
  for (const auto& [said, expected] : cases) {
    Launcher launcher({.num_ranks = 2, .arguments = {"say", "1", said}, .max_restarts = 10});
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 1);
    EXPECT_THAT(launcher.text, AllOf(HasSubstr("RESULT 1: rank 1 was killed by signal 9 (SIGKILL): control "),
                                     HasSubstr(expected)));
  }
}

// A process of another launch does not meet the ranks of this one.
TEST(Agent, AnotherJobsWorkerIsNotTakenForARank) {
  Launcher launcher({.num_ranks = 2, .arguments = {"impostor"}});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, HasSubstr("exited with code 1: the launcher's agent is gone"));
}

TEST(Agent, SignalsArePassedOnOnce) {
  for (const int sent : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    Launcher launcher({.num_ranks = 3, .arguments = {"count_signals"}});
    launcher.wait_for_line("ready");
    // As a terminal does it: to the whole group, in which the ranks must not be.
    kill(-launcher.pid(), sent);
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_THAT(launcher.text,
                  HasSubstr("rank " + std::to_string(rank) + ": signal " + std::to_string(sent) + " x 1\n"));
  }
}

// As under nohup: it neither ends the job nor counts as the first of two.
TEST(Agent, WhatIsIgnoredAtTheStartStaysIgnored) {
  for (const int ignored : {SIGHUP, SIGUSR1, SIGINT}) {
    Launcher launcher({.num_ranks = 2, .arguments = {"count_signals"}, .ignored = ignored});
    launcher.wait_for_line("ready");
    kill(-launcher.pid(), ignored);
    kill(-launcher.pid(), SIGTERM);
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
    EXPECT_THAT(launcher.text, HasSubstr("rank 1: signal " + std::to_string(SIGTERM) + " x 1\n"));
  }
}

// 75: interrupted, saved. It is no failure, but one beside it is.
TEST(Agent, InterruptedRanksMakeAnInterruptedJob) {
  struct Case {
    const char *rank_1, *others;
    int job;
  };
  for (const Case& c :
       {Case{"75", "75", 75}, {"75", "0", 75}, {"0", "0", 0}, {"1", "75", 1}, {"75", "1", 1}}) {
    Launcher launcher({.num_ranks = 3, .arguments = {"end", "1", c.rank_1, c.others}});
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, c.job) << c.rank_1 << " " << c.others << "\n" << launcher.text;
  }
}

TEST(Agent, TwoSignalsAtOnceAreOne) {
  Launcher launcher({.num_ranks = 2, .arguments = {"count_signals"}});
  launcher.wait_for_line("ready");
  kill(launcher.pid(), SIGTERM);
  kill(launcher.pid(), SIGINT);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
}

TEST(Agent, ASecondSignalKills) {
  Launcher launcher({.num_ranks = 2, .arguments = {"stubborn"}, .ms_a_signal = 1000});
  launcher.wait_for_line("ready");
  kill(launcher.pid(), SIGINT);
  kill(launcher.pid(), SIGTERM);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, HasSubstr("interrupted by signal 2 (SIGINT)"));
}

TEST(Agent, RanksThatDieOfTheUsersSignalWereInterrupted) {
  Launcher launcher({.num_ranks = 2, .arguments = {"wait"}});
  launcher.wait_for_line("ready");
  kill(launcher.pid(), SIGINT);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, HasSubstr("RESULT -1: interrupted by signal 2 (SIGINT) HINT \n"));
}

// kill -9 of the launcher takes all ranks with it.
TEST(Agent, NoRankOutlivesTheLauncher) {
  Launcher launcher({.num_ranks = 3, .arguments = {"stubborn"}});
  launcher.wait_for_line("ready");
  std::vector<int> watched;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    char line[512] = {};
    const int fd = open((entry.path() / "stat").c_str(), O_RDONLY);
    if (fd < 0) continue;
    const bool is_read = read(fd, line, sizeof(line) - 1) > 0;
    close(fd);
    int parent = 0;
    const char* after = std::strrchr(line, ')');
    if (is_read && after != nullptr && std::sscanf(after + 1, " %*c %d", &parent) == 1 &&
        parent == launcher.pid())
      watched.push_back(pidfd_open(std::stoi(name), 0));
  }
  ASSERT_EQ(watched.size(), 4u);  // and its master
  kill(launcher.pid(), SIGKILL);
  for (const int fd : watched) {
    pollfd ended{fd, POLLIN, 0};
    EXPECT_EQ(poll(&ended, 1, -1), 1);  // returns as soon as it has ended
    close(fd);
  }
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, -SIGKILL);
}

TEST(Agent, WhatCannotRunIsNamed) {
  LaunchOptions options;
  options.command = {"/no/such/program"};
  options.num_ranks = 2;
  EXPECT_THROW(run_agent(options), IoError);
  options.num_ranks = 0;
  EXPECT_THROW(run_agent(options), Error);
  options.num_ranks = 1;
  options.command.clear();
  EXPECT_THROW(run_agent(options), Error);
}

TEST(Agent, LeavesSignalsAsTheyWere) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  LaunchOptions options;
  options.num_ranks = 2;
  options.command = {"/bin/true"};
  EXPECT_EQ(run_agent(options).exit_code, 0);
  options.command = {"/bin/false"};
  EXPECT_EQ(run_agent(options).exit_code, 1);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

}  // namespace
}  // namespace athanor::tests::agent_test
