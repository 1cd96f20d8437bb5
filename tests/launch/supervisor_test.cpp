// The launcher with real processes: what users and the survivors hear of each way to fail, and that nothing
// stays.
#include "athanor/launch/supervisor.h"

#include <fcntl.h>
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
#include "athanor/comm/shm/shm.h"
#include "support/places.h"

namespace athanor::tests::supervisor_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// supervise() in a process of its own, as `athanor launch` calls it. Between two signals `ms_a_signal` pass by its clock,
// and nobody who ends by himself is so slow that his grace ends.
class Launcher {
 public:
  Launcher(int num_ranks, std::vector<std::string> arguments, int64_t grace_ms = 600'000, int ignored = 0,
           int64_t ms_a_signal = 0) {
    int output[2], report[2];
    if (pipe(output) != 0 || pipe(report) != 0) throw std::runtime_error("pipe");
    std::fflush(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      for (int number = 1; number < SIGRTMIN; ++number) std::signal(number, SIG_DFL);
      if (ignored != 0) std::signal(ignored, SIG_IGN);
      dup2(output[1], STDOUT_FILENO);
      for (const int fd : {output[0], output[1], report[0]}) close(fd);
      fcntl(report[1], F_SETFD, FD_CLOEXEC);
      const auto say = [&](std::string_view bytes) {
        if (write(report[1], bytes.data(), bytes.size()) < 0) _exit(99);
      };
      LaunchOptions options;
      options.num_ranks = num_ranks;
      options.command = {built("tests/launch_worker")};
      options.command.insert(options.command.end(), arguments.begin(), arguments.end());
      options.environment = {"KEPT=yes", "RANK=77", "PATH=/usr/bin"};
      options.grace_ms = grace_ms;
      options.write = say;
      options.clock = [ms = int64_t{0}, ms_a_signal]() mutable { return (ms += ms_a_signal) * 1'000'000; };
      try {
        ShmSegment segment(num_ranks);
        options.segment_fd = segment.fd();
        options.on_failed = [&](int rank, const std::string& why) { segment.mark_dead(rank, why); };
        options.on_finished = [&](int rank) { segment.mark_left(rank); };
        options.blamed = [&]() -> std::optional<int> {
          const auto failure = segment.failure();
          return failure ? std::optional<int>(failure->rank) : std::nullopt;
        };
        const LaunchResult result = supervise(options);
        say("RESULT " + std::to_string(result.failed_rank) + ": " + result.message + " HINT " + result.hint +
            "\n");
        _exit(result.exit_code);
      } catch (const std::exception& error) {
        say(std::string("THROWN ") + error.what() + "\n");
        _exit(98);
      }
    }
    close(output[1]);
    close(report[1]);
    out_ = output[0];
    report_ = report[0];
  }
  ~Launcher() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
    close(report_);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  pid_t pid() const { return pid_; }

  // Reads rank 0's standard output up to and with a line.
  void wait_for_line(const std::string& line) {
    std::string seen;
    char c;
    while (!seen.ends_with(line + "\n") && read(out_, &c, 1) == 1) seen += c;
    ASSERT_THAT(seen, HasSubstr(line));
  }

  // Waits for the end; `out` is the rest of rank 0's standard output, `text` what the launcher wrote and its
  // result.
  void finish() {
    out = drain(out_);
    text = drain(report_);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string drain_report() { return drain(report_); }

  std::string out, text;
  int exit_code = -1;

 private:
  static std::string drain(int fd) {
    std::string all;
    char buffer[4096];
    for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;)
      all.append(buffer, static_cast<size_t>(n));
    return all;
  }
  pid_t pid_ = 0;
  int out_ = -1, report_ = -1;
};

TEST(Supervisor, RanksMeetAndEndWell) {
  for (int n : {1, 2, 5}) {
    Launcher launcher(n, {"sum"});
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
    EXPECT_EQ(launcher.out, "sum " + std::to_string(n * (n + 1) / 2) + "\n");
    EXPECT_EQ(launcher.text, "RESULT -1:  HINT \n");
  }
}

TEST(Supervisor, WhatARankIsGiven) {
  Launcher launcher(3, {"print"});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  EXPECT_EQ(launcher.out, "out of 0\n");  // the others' is dropped
  EXPECT_THAT(launcher.text, AllOf(HasSubstr("0/3 local 0/3 input 0 kept yes group 1\nsame on all\n"),
                                   HasSubstr("[rank 1] 1/3 local 1/3 input 0 kept yes group 1\n"),
                                   HasSubstr("[rank 2] 2/3 local 2/3 input 0 kept yes group 1\n"),
                                   Not(HasSubstr("] same on all"))));
}

TEST(Supervisor, AKilledRankEndsTheJobAndIsNamed) {
  for (const char* victim : {"0", "1", "2"}) {
    Launcher launcher(3, {"die", victim, std::to_string(SIGKILL)});
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 1);
    const std::string rank = victim;
    EXPECT_THAT(
        launcher.text,
        HasSubstr(fmt::format("RESULT {0}: rank {0} was killed by signal 9 (SIGKILL) HINT if nobody", rank)));
    EXPECT_THAT(launcher.text, HasSubstr("athanor: error: rank " + rank + " was lost: "));  // the survivors
  }
}

TEST(Supervisor, ExitCodeAndLastWordsOfTheOneThatFailed) {
  Launcher coded(2, {"exit", "1", "7"});
  coded.finish();
  EXPECT_EQ(coded.exit_code, 1);
  EXPECT_THAT(coded.text, HasSubstr("RESULT 1: rank 1 exited with code 7 HINT"));
  // The other rank hears that it has left and may end sooner; the one that threw is named all the same.
  for (int round = 0; round < 5; ++round) {
    Launcher thrown(2, {"throw", "1"});
    thrown.finish();
    EXPECT_EQ(thrown.exit_code, 1);
    EXPECT_THAT(thrown.text, HasSubstr("RESULT 1: rank 1 exited with code 1: the loss is not finite HINT"));
  }
}

TEST(Supervisor, ARankThatNeverJoinsIsNamed) {
  Launcher launcher(2, {"exit_before_joining", "1", "5"});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, AllOf(HasSubstr("RESULT 1: rank 1 exited with code 5"),
                                   HasSubstr("rank 1 was lost: exited with code 5")));
}

TEST(Supervisor, ARankThatLeavesTooEarlyIsNamedByThoseWhoNeedIt) {
  for (const char* mode : {"leave", "exit_before_joining"}) {
    Launcher launcher(2, {mode, "1", "0"});
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 1);
    EXPECT_THAT(launcher.text,
                HasSubstr("rank 0 exited with code 1: rank 1 was lost: it has left the group"));
  }
}

TEST(Supervisor, AWrongConfigIsSaidOnceAndIsExitCode2) {
  Launcher launcher(4, {"config"});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 2);
  const std::string said = launcher.text.substr(0, launcher.text.find("RESULT"));
  EXPECT_EQ(said, "athanor: error: run.toml: unknown key 'stepz'\n  hint: did you mean 'steps'?\n");
  EXPECT_THAT(launcher.text,
              HasSubstr("exited with code 2: run.toml: unknown key 'stepz' HINT did you mean 'steps'?"));
}

// Ranks that do not react get SIGTERM, then SIGKILL.
TEST(Supervisor, GraceEnds) {
  Launcher launcher(3, {"die_stubborn", "1"}, 50);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, HasSubstr("RESULT 1: rank 1 was killed by signal 9 (SIGKILL)"));
}

// The rank that caused it is named although another one ended first.
TEST(Supervisor, AnAbortBlamesTheRankThatAborted) {
  Launcher launcher(2, {"abort", "1"});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, AllOf(HasSubstr("athanor: error: rank 1 aborted group 'world': disk full"),
                                   HasSubstr("RESULT 1: rank 1 exited with code 1: disk full")));
}

TEST(Supervisor, SignalsArePassedOnOnce) {
  for (const int sent : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    Launcher launcher(3, {"count_signals"});
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
TEST(Supervisor, WhatIsIgnoredAtTheStartStaysIgnored) {
  for (const int ignored : {SIGHUP, SIGUSR1, SIGINT}) {
    Launcher launcher(2, {"count_signals"}, 600'000, ignored);
    launcher.wait_for_line("ready");
    kill(-launcher.pid(), ignored);
    kill(-launcher.pid(), SIGTERM);
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
    EXPECT_THAT(launcher.text, HasSubstr("rank 1: signal " + std::to_string(SIGTERM) + " x 1\n"));
  }
}

// 75: interrupted, saved. It is no failure, but one beside it is.
TEST(Supervisor, InterruptedRanksMakeAnInterruptedJob) {
  struct Case {
    const char *rank_1, *others;
    int job;
  };
  for (const Case& c :
       {Case{"75", "75", 75}, {"75", "0", 75}, {"0", "0", 0}, {"1", "75", 1}, {"75", "1", 1}}) {
    Launcher launcher(3, {"end", "1", c.rank_1, c.others});
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, c.job) << c.rank_1 << " " << c.others << "\n" << launcher.text;
  }
}

TEST(Supervisor, TwoSignalsAtOnceAreOne) {
  Launcher launcher(2, {"count_signals"});
  launcher.wait_for_line("ready");
  kill(launcher.pid(), SIGTERM);
  kill(launcher.pid(), SIGINT);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
}

TEST(Supervisor, ASecondSignalKills) {
  Launcher launcher(2, {"stubborn"}, 600'000, 0, /*ms_a_signal=*/1000);
  launcher.wait_for_line("ready");
  kill(launcher.pid(), SIGINT);
  kill(launcher.pid(), SIGTERM);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, HasSubstr("interrupted by signal 2 (SIGINT)"));
}

TEST(Supervisor, RanksThatDieOfTheUsersSignalWereInterrupted) {
  Launcher launcher(2, {"wait"});
  launcher.wait_for_line("ready");
  kill(launcher.pid(), SIGINT);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, HasSubstr("RESULT -1: interrupted by signal 2 (SIGINT) HINT \n"));
}

// kill -9 of the launcher takes all ranks with it.
TEST(Supervisor, NoRankOutlivesTheLauncher) {
  Launcher launcher(3, {"stubborn"});
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
  ASSERT_EQ(watched.size(), 3u);
  kill(launcher.pid(), SIGKILL);
  for (const int fd : watched) {
    pollfd ended{fd, POLLIN, 0};
    EXPECT_EQ(poll(&ended, 1, -1), 1);  // returns as soon as it has ended
    close(fd);
  }
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, -SIGKILL);
}

TEST(Supervisor, WhatCannotRunIsNamed) {
  LaunchOptions options;
  options.command = {"/no/such/program"};
  options.num_ranks = 2;
  EXPECT_THROW(supervise(options), IoError);
  options.num_ranks = 0;
  EXPECT_THROW(supervise(options), Error);
  options.num_ranks = 1;
  options.command.clear();
  EXPECT_THROW(supervise(options), Error);
}

TEST(Supervisor, LeavesNothingOpen) {
  const auto descriptors = [] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      count += entry.exists() ? 1 : 0;
    return count;
  };
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  const int open_before = descriptors();
  LaunchOptions options;
  options.num_ranks = 2;
  options.command = {"/bin/true"};
  EXPECT_EQ(supervise(options).exit_code, 0);
  options.command = {"/bin/false"};
  EXPECT_EQ(supervise(options).exit_code, 1);
  EXPECT_EQ(descriptors(), open_before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // no child is left
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

}  // namespace
}  // namespace athanor::tests::supervisor_test
