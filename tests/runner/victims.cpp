// Cases that end in every way, for batch_test.cpp. Nothing else runs this program.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/tiers.h"

namespace athanor::tests {
namespace {

TEST(Victims, Pass) {
  std::puts("not worth a word");
}
TEST(Victims, Fail) {
  std::puts("seen before it failed");
  EXPECT_EQ(1 + 1, 3);
}
TEST(Victims, Skip) {
  GTEST_SKIP() << "for two\nreasons";
}
TEST(Victims, Crash) {
  std::puts("last words");
  std::fflush(stdout);
  signal(SIGSEGV, SIG_DFL);  // a sanitizer would make it an exit code
  raise(SIGSEGV);
}
TEST(Victims, Leave) {
  std::exit(0);
}
TEST(Victims, Hang) {
  for (;;) pause();
}
TEST(Victims, PassAfterwards) {}
TEST(Victims, SayWhere) {
  FAIL() << "in " << std::filesystem::current_path().string() << ". Its files in " << std::getenv("TMPDIR")
         << ".";
}

TEST(Victims, ChildrenSayNothing) {
  const pid_t child = fork();
  if (child == 0) {
    EXPECT_TRUE(false) << "of the child alone";
    return;  // and ends the case, as its parent does
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_NE(status, 0);
}

TEST(Leaving, BadExitCode) {
  std::atexit([] { _exit(3); });
}

TEST(Leaking, InACase) {
  LEAVE_OUT_UNDER(thread_sanitizer, "it looks for no leaks");
  for (int i = 0; i < 8; ++i) EXPECT_NE(std::malloc(100), nullptr);  // NOLINT: it is to leak
}
TEST(Leaking, NotInTheNext) {}

}  // namespace
}  // namespace athanor::tests
