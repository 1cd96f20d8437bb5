// What the launcher says and keeps of a rank that failed, and that no rank keeps it from its work by what it writes.
#include "athanor/launch/diagnosis/failure_report.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "athanor/launch/rank_processes.h"
#include "launcher.h"
#include "support/temporary_folder.h"

namespace athanor::tests::failure_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(FailureReport, SaysWhereWhenAndWhy) {
  EXPECT_EQ(text_of({.host = "node7",
                     .process = 4242,
                     .step = 41,
                     .generation = 2,
                     .wall_seconds = 1.5,
                     .seconds_after_step = 0.012,
                     .why = "somebody killed it",
                     .num_others = 1,
                     .num_other_lines = 3,
                     .lines = {"one", "\033[31mtwo", std::string(200, 'x')},
                     .file = "runs/first/logs/rank1.output"}),
            "    where: process 4242 on node7, after step 41, generation 2\n"
            "    when: 1970-01-01T00:00:01.500Z, 12 ms after that step\n"
            "    why: somebody killed it\n"
            "    others: 1 rank failed after it; 3 lines of other ranks are not shown\n"
            "    its last output: runs/first/logs/rank1.output, which ends with\n"
            "      one\n      ?[31mtwo\n      " +
                std::string(160, 'x') + "...");
  EXPECT_EQ(text_of({.host = "h", .process = 7}),
            "    where: process 7 on h\n    when: 1970-01-01T00:00:00.000Z");
  EXPECT_THAT(text_of({.lines = {"last"}, .not_written = "disk full"}),
              HasSubstr("\n    it wrote at last; its output could not be written: disk full\n      last"));
}

TEST(Failure, IsSaidWithStepAndLastOutputWhichIsKept) {
  const TemporaryFolder folder;
  Launcher launcher({.num_ranks = 3,
                     .arguments = {"recover", "20", "1", "7"},
                     .environment = {"TEST_FOLDER=" + folder.path("run")}});
  std::filesystem::create_directories(folder.path("run"));
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  const std::string file = folder.path("run/logs/rank1.output");
  // The word of its last steps may die with it.
  EXPECT_THAT(launcher.text,
              AllOf(HasSubstr("RESULT 1: rank 1 was killed by signal 9 (SIGKILL) HINT \n"),
                    ContainsRegex("where: process [0-9]+ on .*, after step [1-7]\n"),
                    ContainsRegex("when: 20..-.*Z, .* after that step\n"),
                    HasSubstr("    its last output: " + file + ", which ends with\n      rank 1: token")));
  EXPECT_THAT(read(file), HasSubstr("rank 1: token "));
  EXPECT_THAT(read(folder.path("run/logs/rank0.output")), HasSubstr("rank 1 was lost: "));
}

TEST(Failure, LeavesNothingInTheFolderOfARunThatEndsWell) {
  const TemporaryFolder folder;
  Launcher launcher(
      {.num_ranks = 2, .arguments = {"recover", "20"}, .environment = {"TEST_FOLDER=" + folder.path("")}});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  EXPECT_FALSE(std::filesystem::exists(folder.path("logs")));
}

TEST(Failure, ForWantOfMemoryIsProvenByTheCounter) {
  for (const bool counted : {true, false}) {
    const TemporaryFolder folder;
    const std::string events = folder.path("sys/fs/cgroup/memory.events");
    std::filesystem::create_directories(folder.path("sys/fs/cgroup"));
    std::filesystem::create_directories(folder.path("proc/self"));
    std::ofstream(folder.path("proc/self/cgroup")) << "0::/\n";
    std::ofstream(events) << "oom_kill 0\n";
    LauncherOptions options{.num_ranks = 2, .arguments = {"die", "1", std::to_string(SIGKILL)}};
    if (counted) options.environment = {"TEST_MEMORY_EVENTS=" + events};
    options.system_root = folder.path("");
    Launcher launcher(options);
    launcher.finish();
    EXPECT_THAT(launcher.text,
                HasSubstr(counted ? "rank 1 was killed by signal 9 (SIGKILL) for want of memory HINT"
                                  : "rank 1 was killed by signal 9 (SIGKILL) HINT"));
    EXPECT_THAT(launcher.text, HasSubstr(counted ? "why: the kernel killed it for want of memory"
                                                 : "why: somebody killed it: the kernel has killed nothing"));
  }
}

TEST(Failure, SaysWhatTheMachineHasCounted) {
  const TemporaryFolder folder;
  const std::string errors = folder.path("sys/devices/system/edac/mc/mc0/ue_count");
  std::filesystem::create_directories(folder.path("sys/devices/system/edac/mc/mc0"));
  std::ofstream(errors) << "4\n";
  Launcher launcher({.num_ranks = 2,
                     .arguments = {"die", "1", std::to_string(SIGBUS)},
                     .environment = {"TEST_MEMORY_ERRORS=" + errors},
                     .system_root = folder.path("")});
  launcher.finish();
  EXPECT_THAT(launcher.text, HasSubstr("the machine: 1 uncorrected memory error on mc0\n"));
  EXPECT_THAT(launcher.text, HasSubstr("    hardware: since the start 1 uncorrected memory error on mc0\n"));
}

TEST(Failure, IsSaidInWords) {
  const std::pair<int, const char*> signals[] = {{SIGSEGV, "memory that is not its own"},
                                                 {SIGBUS, "shared memory"},
                                                 {SIGILL, "instruction"},
                                                 {SIGFPE, "divided by zero"},
                                                 {SIGABRT, "the program gave up"},
                                                 {SIGXCPU, "limit of processor time"}};
  for (const auto& [number, expected] : signals) {
    Launcher launcher({.num_ranks = 2, .arguments = {"die", "1", std::to_string(number)}});
    launcher.finish();
    EXPECT_THAT(launcher.text,
                AllOf(HasSubstr("RESULT 1: rank 1 was killed by signal " + std::to_string(number)),
                      ContainsRegex(std::string("\n    why: .*") + expected)));
  }
  Launcher coded({.num_ranks = 2, .arguments = {"exit", "1", "139"}});
  coded.finish();
  EXPECT_THAT(coded.text, AllOf(HasSubstr("RESULT 1: rank 1 exited with code 139 HINT"),
                                HasSubstr("why: 128 + 11: SIGSEGV ended a process under it")));
}

TEST(Flood, DoesNotKeepTheLauncherFromSignals) {
  for (const char* rank : {"0", "1"}) {
    Launcher launcher({.num_ranks = 2, .arguments = {"flood", rank}});
    launcher.wait_for_line("ready");
    launcher.wait_for_text("it writes too fast\n");
    kill(launcher.pid(), SIGINT);
    launcher.finish();
    EXPECT_THAT(launcher.text, AllOf(HasSubstr("RESULT -1: interrupted by signal 2 (SIGINT) HINT"),
                                     HasSubstr(std::string("[rank ") + rank + "] ")));
  }
}

// Whoever writes while it is read, as fast as it is read, has his bytes read in the next turn.
TEST(Flood, ATurnReadsWhatWasThere) {
  int writer = -1, times = 0;
  const std::string block(4096, 'x');
  RankOutput output(1, [&](std::string_view) {
    if (++times >= 100) return;
    EXPECT_EQ(write(writer, block.data(), block.size()), std::ssize(block));
  });
  RankProcesses processes(output);
  processes.start(0, 0, {.arguments = {"/bin/sleep", "1000"}, .environment = {}, .inherited_fds = {}});
  RankProcess& one = *processes.find(0);
  writer = open(("/proc/" + std::to_string(one.process.pid()) + "/fd/2").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  ASSERT_EQ(write(writer, block.data(), block.size()), std::ssize(block));
  processes.read_output(one);
  EXPECT_EQ(times, 1);
  processes.read_output(one);
  EXPECT_EQ(times, 2);
  close(writer);
}

// A process that a rank leaves behind has its standard error, too.
TEST(Flood, OfAChildDoesNotOutliveItsRank) {
  Launcher launcher({.num_ranks = 2, .arguments = {"flood_child", "1", "7"}});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text,
              AllOf(HasSubstr("RESULT 1: rank 1 exited with code 7 HINT"),
                    HasSubstr("LEFT 0 descriptors, 0 children, 0 sockets"), Not(HasSubstr("THROWN"))));
}

}  // namespace
}  // namespace athanor::tests::failure_test
