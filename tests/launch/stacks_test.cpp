// Stacks, states and names of real processes, which go on afterwards as if nothing had been.
#include "athanor/launch/diagnosis/stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

#include "athanor/launch/diagnosis/stack_clusters.h"
#include "support/tiers.h"

namespace athanor::tests::stacks_test {

// Not inlined, and with something after the call, so that each has a frame.
[[gnu::noinline]] char waits_for_others(int fd) {
  char byte = 0;
  const ssize_t got = read(fd, &byte, 1);
  return got == 1 ? byte : '?';
}
[[gnu::noinline]] char computes_alone(int fd) {
  const char byte = waits_for_others(fd);
  return static_cast<char>(byte + 1);
}

namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A process that waits in one of the two for a byte, and then ends with 0.
class Child {
 public:
  explicit Child(bool computes, bool has_thread = false) {
    EXPECT_EQ(pipe(go_.data()), 0);
    std::array<int, 2> ready{};
    EXPECT_EQ(pipe(ready.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::thread other;
      if (has_thread) {
        other = std::thread([&] {
          pthread_setname_np(pthread_self(), "loader");
          if (write(ready[1], "t", 1) != 1) _exit(3);
          waits_for_others(go_[0]);
        });
      }
      if (write(ready[1], "m", 1) != 1) _exit(3);
      const char byte = computes ? computes_alone(go_[0]) : waits_for_others(go_[0]);
      if (other.joinable()) other.join();
      _exit(byte == (computes ? 'h' : 'g') ? 0 : 1);
    }
    char byte = 0;
    for (int i = 0; i < (has_thread ? 2 : 1); ++i) EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  ~Child() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) waitpid(pid_, nullptr, __WALL);
    close(go_[0]);
    close(go_[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // It is about to wait when it says so; when its stack shows it, it does.
  ProcessStacks waiting() const {
    for (;;) {
      ProcessStacks stacks = take_stacks(pid_, 10'000);
      bool all = !stacks.threads.empty();
      for (const ThreadStack& thread : stacks.threads)
        all = all && std::find_if(thread.frames.begin(), thread.frames.end(), [](const std::string& frame) {
                       return frame.find("waits_for_others") != std::string::npos;
                     }) != thread.frames.end();
      if (all || !stacks.refused.empty()) return stacks;
    }
  }
  int ends(int bytes = 1) {
    EXPECT_EQ(write(go_[1], "gg", static_cast<size_t>(bytes)), bytes);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  std::array<int, 2> go_{};
  pid_t pid_ = -1;
};

TEST(Stacks, OfAProcessThatWaits) {
  LEAVE_OUT_UNDER(thread_sanitizer, "its own frames and threads stand among those that are looked for");
  Child child(/*computes=*/true);
  const ProcessStacks stacks = child.waiting();
  EXPECT_EQ(stacks.refused, "");
  ASSERT_EQ(stacks.threads.size(), 1u);
  const ThreadStack& main = stacks.threads[0];
  EXPECT_EQ(main.thread, child.pid());
  EXPECT_EQ(main.name.substr(0, 12), "launch_tests");
  std::vector<std::string> ours;
  for (const std::string& frame : main.frames)
    if (frame.starts_with("athanor::tests::stacks_test::")) ours.push_back(frame.substr(29));
  ASSERT_GE(ours.size(), 2u) << ::testing::PrintToString(main.frames);
  EXPECT_EQ(ours[0], "waits_for_others");
  EXPECT_EQ(ours[1], "computes_alone");
  EXPECT_THAT(main.frames, Contains("main"));
  EXPECT_EQ(child.ends(), 0);  // undisturbed
}

TEST(Stacks, OfEachThreadByItsName) {
  LEAVE_OUT_UNDER(thread_sanitizer, "its own frames and threads stand among those that are looked for");
  Child child(/*computes=*/false, /*has_thread=*/true);
  const ProcessStacks stacks = child.waiting();
  ASSERT_EQ(stacks.threads.size(), 2u);
  EXPECT_EQ(stacks.threads[0].thread, child.pid());
  EXPECT_EQ(stacks.threads[1].name, "loader");
  EXPECT_THAT(stacks.threads[1].frames, Contains(HasSubstr("waits_for_others")));
  EXPECT_THAT(stacks.threads[1].frames, Not(Contains("main")));
  EXPECT_EQ(child.ends(2), 0);
}

TEST(Stacks, AStoppedProcessStaysStopped) {
  LEAVE_OUT_UNDER(thread_sanitizer, "its own frames and threads stand among those that are looked for");
  Child child(/*computes=*/false);
  child.waiting();
  kill(child.pid(), SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(child.pid(), &status, WUNTRACED), child.pid());
  const ProcessStacks stacks = take_stacks(child.pid(), 10'000);
  ASSERT_EQ(stacks.threads.size(), 1u);
  EXPECT_EQ(stacks.threads[0].state, 'T');
  EXPECT_THAT(stacks.threads[0].frames, Contains(HasSubstr("waits_for_others")));
  while (thread_states(child.pid()).threads.at(0).state != 'T') continue;  // on its way back to the stop
  kill(child.pid(), SIGCONT);
  EXPECT_EQ(child.ends(), 0);
}

// A thread that has not stopped in time stops later, and nobody waits for it: it must go on by itself.
TEST(Stacks, ALimitThatIsTooShortFreezesNobody) {
  LEAVE_OUT_UNDER(thread_sanitizer, "its own frames and threads stand among those that are looked for");
  Child child(/*computes=*/false, /*has_thread=*/true);
  child.waiting();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(take_stacks(child.pid(), 0).threads.size(), 2u);
  EXPECT_EQ(child.ends(2), 0);
}

// What the odd one of a hanging job is, from real stacks.
TEST(Stacks, NameTheOddProcess) {
  LEAVE_OUT_UNDER(thread_sanitizer, "its own frames and threads stand among those that are looked for");
  Child first(false), second(true), third(false);
  const auto clusters = cluster_stacks({{0, first.waiting()}, {1, second.waiting()}, {2, third.waiting()}});
  EXPECT_EQ(clusters.size(), 2u) << text_of(clusters);
  EXPECT_EQ(odd_rank(clusters), 1) << text_of(clusters);
}

// Two tracers of one thread there cannot be: then /proc is all.
TEST(Stacks, ARefusalLeavesWhatProcSays) {
  LEAVE_OUT_UNDER(thread_sanitizer, "its own frames and threads stand among those that are looked for");
  Child child(/*computes=*/false);
  child.waiting();
  ASSERT_EQ(ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr), 0);
  ProcessStacks stacks;
  std::thread([&] { stacks = take_stacks(child.pid(), 10'000); }).join();
  EXPECT_EQ(stacks.refused, "ptrace is not permitted, or another process traces this one");
  ASSERT_EQ(stacks.threads.size(), 1u);
  EXPECT_THAT(stacks.threads[0].frames, IsEmpty());
  EXPECT_NE(stacks.threads[0].state, '?');
}

TEST(Stacks, OfAProcessThatIsGoneThereAreNone) {
  LEAVE_OUT_UNDER(thread_sanitizer, "its own frames and threads stand among those that are looked for");
  pid_t gone = 0;
  {
    Child child(false);
    gone = child.pid();
    EXPECT_EQ(child.ends(), 0);
  }
  EXPECT_THAT(take_stacks(gone, 100).threads, IsEmpty());
  EXPECT_THAT(thread_states(gone).threads, IsEmpty());
}

TEST(FunctionNames, AreShort) {
  EXPECT_EQ(short_function_name("main"), "main");
  EXPECT_EQ(short_function_name("_ZN7athanor3run7Segment5trainEv"), "athanor::run::Segment::train");
  EXPECT_EQ(short_function_name("_ZNK7athanor3run7Segment8snapshotEv"), "athanor::run::Segment::snapshot");
  EXPECT_EQ(short_function_name("_ZN7athanor3run12_GLOBAL__N_15helloERKSt6vectorIiSaIiEE"),
            "athanor::run::hello");
  EXPECT_EQ(short_function_name("_ZN7athanor3run5helloEi.isra.0"), "athanor::run::hello");
  EXPECT_EQ(short_function_name("_ZNSt6vectorIiSaIiEE9push_backERKi"), "std::vector::push_back");
}

}  // namespace
}  // namespace athanor::tests::stacks_test
