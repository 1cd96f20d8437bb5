// The mpi transport under a real mpirun: mpi_ranks.cpp is what it starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/places.h"
#include "support/tiers.h"

namespace athanor::tests::mpi_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Job {
  int exit_code;
  std::string output;
};

// Open MPI does not free all it has when it ends, which is no leak of ours.
Job run_ranks_of_mpi(int ranks, const std::string& what) {
  const std::string command =
      "ASAN_OPTIONS=detect_leaks=0 timeout 900 mpirun --allow-run-as-root --oversubscribe -np " +
      std::to_string(ranks) + " " + built("tests/mpi_ranks") + " " + built("athanor_mpi.so") + " " + what +
      " 2>&1 </dev/null";
  Job run{-1, ""};
  FILE* pipe = popen(command.c_str(), "r");
  char line[4096];
  while (std::fgets(line, sizeof(line), pipe) != nullptr) run.output += line;
  run.exit_code = WEXITSTATUS(pclose(pipe));
  return run;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

class Mpi : public ::testing::Test {
 protected:
  void SetUp() override {
    LEAVE_OUT_UNDER(thread_sanitizer, "it sees the threads of MPI only in part");
    if (std::system("command -v mpirun >/dev/null") != 0)
      GTEST_SKIP() << "no mpirun here: scripts/install-deps.sh installs Open MPI";
  }
};

TEST_F(Mpi, EveryCallAgainstTheSerialOne) {
  for (const int ranks : {1, 2, 3, 5}) {
    const Job run = run_ranks_of_mpi(ranks, "every_call");
    EXPECT_EQ(run.exit_code, 0) << run.output;
    EXPECT_EQ(count(run.output, "outcome: fine\n"), ranks) << run.output;
  }
}

// mpirun ends a job when its first rank fails, so not all may get to say what they know.
TEST_F(Mpi, FailuresAreNamed) {
  Job run = run_ranks_of_mpi(3, "mismatch");
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.output, AllOf(HasSubstr("outcome: Error: group 'world': the ranks do not make the same"),
                                HasSubstr("rank 1 called all_gather(f32[3], \"wrong\")")));
  run = run_ranks_of_mpi(3, "abort");
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.output, HasSubstr("outcome: Recoverable: rank 1 aborted group 'world': disk full"));
}

}  // namespace
}  // namespace athanor::tests::mpi_test
