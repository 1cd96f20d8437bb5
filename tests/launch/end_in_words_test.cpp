// What signals, exit codes and the kernel's counters mean.
#include "athanor/launch/diagnosis/end_in_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace athanor::tests::end_in_words_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(EndInWords, SaysWhatItWas) {
  EXPECT_EQ(end_in_words({.exit_code = 7}), "exited with code 7");
  EXPECT_EQ(end_in_words({.signal_number = SIGKILL}), "was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(end_in_words({.signal_number = SIGRTMIN + 1}), "was killed by signal 35 (SIG?)");
}

TEST(EndInWords, SaysWhatASignalMeans) {
  const std::pair<int, const char*> cases[] = {
      {SIGSEGV, "memory that is not its own"},
      {SIGBUS, "shared memory"},
      {SIGILL, "instruction"},
      {SIGXCPU, "limit of processor time"},
      {SIGFPE, "divided by zero"},
      {SIGABRT, "the program gave up"},
      {SIGTERM, "asked it to end"},
      {SIGPIPE, "that nobody reads"},
      {SIGXFSZ, "limit of a file's size"},
  };
  for (const auto& [number, expected] : cases)
    EXPECT_THAT(meaning_of({.signal_number = number}), HasSubstr(expected));
  EXPECT_EQ(meaning_of({.signal_number = SIGKILL}), "");
  EXPECT_EQ(meaning_of({.signal_number = SIGRTMIN + 1}), "");
}

TEST(EndInWords, SaysWhatAShellMeans) {
  EXPECT_THAT(meaning_of({.exit_code = 126}), HasSubstr("could not be run"));
  EXPECT_THAT(meaning_of({.exit_code = 127}), HasSubstr("was not found"));
  EXPECT_EQ(meaning_of({.exit_code = 137}),
            "128 + 9: SIGKILL ended a process under it: mostly by the kernel, for want of memory");
  EXPECT_THAT(meaning_of({.exit_code = 139}),
              StartsWith("128 + 11: SIGSEGV ended a process under it: it touched"));
  EXPECT_THAT(meaning_of({.exit_code = 143}), StartsWith("128 + 15: SIGTERM"));
  EXPECT_THAT(meaning_of({.exit_code = 134}), StartsWith("128 + 6: SIGABRT"));
  for (const int code : {0, 1, 2, 75, 125, 128, 255}) EXPECT_EQ(meaning_of({.exit_code = code}), "") << code;
}

class Kernel : public ::testing::Test {
 protected:
  void SetUp() override { write("proc/self/cgroup", "0::/job/step\n5:memory:/old\n"); }
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder.path(file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void group(int kills) const {
    write("sys/fs/cgroup/job/step/memory.events", "low 0\noom 9\noom_kill " + std::to_string(kills) + "\n");
  }
  void old_group(int kills) const {
    write("sys/fs/cgroup/memory/old/memory.oom_control",
          "oom_kill_disable 0\nunder_oom 0\noom_kill " + std::to_string(kills) + "\n");
  }
  void machine(int kills) const {
    write("proc/vmstat", "nr_free_pages 5\noom_kill " + std::to_string(kills) + "\n");
  }
  MemoryKills kills() const { return MemoryKills(folder.path("")); }
  TemporaryFolder folder;
};

TEST_F(Kernel, KilledAProcessOfTheGroup) {
  group(3);
  machine(5);
  MemoryKills counted = kills();
  EXPECT_EQ(counted.ask(), KilledBy::somebody);
  group(4);
  machine(6);
  EXPECT_EQ(counted.ask(), KilledBy::kernel);
  EXPECT_EQ(counted.ask(), KilledBy::somebody);  // one kill is one process
  group(6);
  machine(8);
  EXPECT_EQ(counted.ask(), KilledBy::kernel);
  EXPECT_EQ(counted.ask(), KilledBy::kernel);
  EXPECT_EQ(counted.ask(), KilledBy::somebody);
}

TEST_F(Kernel, KilledAProcessOfTheGroupInVersion1) {
  old_group(0);
  MemoryKills counted = kills();
  EXPECT_EQ(counted.ask(), KilledBy::somebody);
  old_group(1);
  EXPECT_EQ(counted.ask(), KilledBy::kernel);
}

TEST_F(Kernel, KilledAProcessOfAnotherGroup) {
  group(3);
  machine(5);
  MemoryKills counted = kills();
  machine(6);
  EXPECT_EQ(counted.ask(), KilledBy::somebody);
}

TEST_F(Kernel, KilledAProcessOfTheMachineWhereGroupsAreNotCounted) {
  machine(5);
  MemoryKills counted = kills();
  EXPECT_EQ(counted.ask(), KilledBy::somebody);
  machine(6);
  EXPECT_EQ(counted.ask(), KilledBy::perhaps_kernel);
  EXPECT_EQ(counted.ask(), KilledBy::somebody);
}

TEST_F(Kernel, DoesNotTell) {
  EXPECT_EQ(kills().ask(), KilledBy::unknown);
  for (const KilledBy by :
       {KilledBy::unknown, KilledBy::somebody, KilledBy::perhaps_kernel, KilledBy::kernel})
    EXPECT_NE(meaning_of(by), "");
}

}  // namespace
}  // namespace athanor::tests::end_in_words_test
