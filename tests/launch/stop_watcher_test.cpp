// Real signals to a process of its own, whose watcher tells through a pipe what it makes of each.
#include "athanor/launch/stop_watcher.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <string>

namespace athanor::tests::stop_watcher_test {
namespace {

// A child with a watcher. Each signal that it takes costs `step_ms` by its clock. It writes "c" for every signal,
// "f" for the first, "a" for one that says at once, and ends when told by a byte.
class Watched {
 public:
  explicit Watched(int64_t step_ms, bool under_launcher = false, int ignored = 0) {
    int out[2], in[2];
    if (pipe(out) != 0 || pipe(in) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ == 0) {
      for (int number = 1; number < SIGRTMIN; ++number) std::signal(number, SIG_DFL);
      if (ignored != 0) std::signal(ignored, SIG_IGN);
      close(in[1]);
      _exit(watch(out[1], in[0], step_ms, under_launcher));
    }
    close(out[1]);
    close(in[0]);
    out_ = out[0];
    in_ = in[1];
  }
  ~Watched() {
    close(in_);
    close(out_);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  void send(int number) const { kill(pid_, number); }
  std::string read(size_t count) const {
    std::string text;
    for (char c = 0; text.size() < count && ::read(out_, &c, 1) == 1;) text += c;
    return text;
  }
  // Its exit code: the signal that asked first.
  int finish() const {
    close(in_);
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  static int watch(int out, int in, int64_t step_ms, bool under_launcher) {
    const auto say = [out](char c) {
      if (write(out, &c, 1) != 1) _exit(99);
    };
    int64_t now_ms = 0;
    int first = 0;
    {
      StopWatcher watcher({.on_first = [&](int) { say('f'); },
                           .on_again = [&](int) { say('a'); },
                           .under_launcher = under_launcher,
                           .clock =
                               [&] {
                                 say('c');
                                 now_ms += step_ms;
                                 return now_ms * 1'000'000;
                               }});
      say('r');
      char c = 0;
      while (::read(in, &c, 1) < 0) continue;
      first = watcher.requested();
    }
    if (under_launcher)
      std::raise(SIGTERM);  // too late: the others had been asked before and it has ended with them
    return first;
  }
  pid_t pid_ = 0;
  int out_ = -1, in_ = -1;
};

TEST(StopWatcher, AnswersAtOnceAndKnowsTheSecond) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    const Watched process(150);
    ASSERT_EQ(process.read(1), "r");
    process.send(number);
    EXPECT_EQ(process.read(2), "cf");
    process.send(SIGTERM);  // 150 ms later
    EXPECT_EQ(process.read(1), "c");
    process.send(SIGTERM);
    EXPECT_EQ(process.read(2), "ca");
    EXPECT_EQ(process.finish(), number);
  }
}

TEST(StopWatcher, ItsLauncherNeverAsksTwice) {
  const Watched ranks(1000, /*under_launcher=*/true);
  ASSERT_EQ(ranks.read(1), "r");
  ranks.send(SIGTERM);
  EXPECT_EQ(ranks.read(2), "cf");
  for (int i = 0; i < 3; ++i) {
    ranks.send(SIGTERM);
    EXPECT_EQ(ranks.read(1), "c");
  }
  EXPECT_EQ(ranks.finish(), SIGTERM);
}

TEST(StopWatcher, IgnoredStaysIgnored) {
  const Watched process(1000, false, SIGHUP);
  ASSERT_EQ(process.read(1), "r");
  process.send(SIGHUP);
  process.send(SIGHUP);
  process.send(SIGUSR2);
  EXPECT_EQ(process.read(2), "cf");
  EXPECT_EQ(process.finish(), SIGUSR2);
}

TEST(StopWatcher, NobodyAsked) {
  const Watched process(1000);
  ASSERT_EQ(process.read(1), "r");
  EXPECT_EQ(process.finish(), 0);
}

}  // namespace
}  // namespace athanor::tests::stop_watcher_test
