// What a job leaves behind is found: a process, memory without a name, a socket folder; what others have is not.
#include "athanor/chaos/leftovers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace athanor::tests::leftovers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A process of another program that waits until it is killed, once it is that program.
pid_t start_waiting(const std::vector<std::string>& environment) {
  std::vector<char*> variables;
  for (const std::string& entry : environment) variables.push_back(const_cast<char*>(entry.c_str()));
  variables.push_back(nullptr);
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    char* arguments[] = {const_cast<char*>("/bin/sleep"), const_cast<char*>("100000"), nullptr};
    execve(arguments[0], arguments, variables.data());
    _exit(127);
  }
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);  // exec has closed the other end
  close(ends[0]);
  // The new environment is there a moment later.
  while (std::ifstream("/proc/" + std::to_string(pid) + "/environ").peek() == EOF) sched_yield();
  return pid;
}

TEST(Leftovers, NothingIsLeft) {
  JobTraces traces;
  EXPECT_THAT(traces.leftovers(), IsEmpty());
}

TEST(Leftovers, AProcessIsNamedAndEnded) {
  JobTraces traces, others;
  const pid_t mine = start_waiting(traces.mark({"PATH=/bin", "XDG_RUNTIME_DIR=/run/user/1"}));
  const pid_t foreign = start_waiting(others.mark({"PATH=/bin"}));
  const std::vector<std::string> found = traces.leftovers();
  EXPECT_THAT(found, ElementsAre("process " + std::to_string(mine) + " (/bin/sleep 100000)"));
  if (found.empty()) kill(mine, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(mine, &status, 0), mine);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(waitpid(foreign, &status, WNOHANG), 0) << "a process of another job was ended";
  kill(foreign, SIGKILL);
  waitpid(foreign, &status, 0);
}

TEST(Leftovers, MemoryThatSomebodyStillHolds) {
  JobTraces traces;
  const int held = memfd_create("athanor snapshot", MFD_CLOEXEC);
  traces.note_memory(getpid());
  const int foreign = memfd_create("athanor snapshot", MFD_CLOEXEC);  // of another job
  EXPECT_THAT(traces.leftovers(),
              ElementsAre(::testing::AllOf(HasSubstr("memfd:athanor snapshot held by process "),
                                           HasSubstr(std::to_string(getpid())))));
  close(held);
  EXPECT_THAT(traces.leftovers(), IsEmpty());
  close(foreign);
}

TEST(Leftovers, ASocketFolder) {
  JobTraces traces;
  ASSERT_EQ(mkdir((traces.runtime_folder() + "/athanor-abc123").c_str(), 0700), 0);
  EXPECT_THAT(traces.leftovers(), ElementsAre("socket folder athanor-abc123"));
}

TEST(Leftovers, TheFolderGoesWithTheObject) {
  std::string folder;
  {
    const JobTraces traces;
    folder = traces.runtime_folder();
    EXPECT_EQ(access(folder.c_str(), F_OK), 0);
  }
  EXPECT_NE(access(folder.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace athanor::tests::leftovers_test
