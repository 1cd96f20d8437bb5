// The warm-up with real processes: what is said of it, and that a rank, an agent and a master may be gone in the midst of it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/observe/event_log.h"
#include "child_processes.h"
#include "launcher.h"
#include "support/kill.h"
#include "support/temporary_folder.h"

namespace athanor::tests::warm_up_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRanks = 3;
const std::string kNothingLeft = "LEFT 0 descriptors, 0 children, 0 sockets\n";
const std::string kFigures = "matrix products 60 to 60 GFLOP/s, memory 10 to 10 GB/s, disk 200 to 200 MB/s";

class WarmUpOfRanks : public ::testing::Test {
 protected:
  LauncherOptions options(const std::string& how) const {
    return {.num_ranks = kRanks,
            .arguments = {"recover", "20"},
            .environment = {"TEST_WARM_UP=" + how, "TEST_FOLDER=" + folder.path(""),
                            "TEST_WARM_UP_GATE=" + folder.path("gate")},
            .max_restarts = 10,
            .has_agents = true};
  }
  std::vector<std::string> events() const {
    std::ifstream file(folder.path("events.jsonl"));
    std::vector<std::string> all;
    for (const RunEvent& one : read_events(std::string{std::istreambuf_iterator<char>(file), {}}))
      all.push_back(one.event == "measured" || one.event == "warm-up" ? one.event + " " + one.cause
                                                                      : one.event);
    return all;
  }
  // How often each rank has measured.
  std::vector<int> times_measured() const {
    std::vector<int> times(kRanks);
    std::ifstream file(folder.path("measured"));
    for (size_t rank = 0; file >> rank;) ++times.at(rank);
    return times;
  }
  // All ranks measure, and come to no end before the gate opens.
  void make_gate() const {
    if (mkfifo(folder.path("gate").c_str(), 0600) != 0) throw std::runtime_error("no pipe");
  }
  void wait_until_all_measure() const {
    const double deadline = now_seconds() + 120.0;
    while (times_measured() != std::vector<int>(kRanks, 1)) {
      if (now_seconds() > deadline) throw std::runtime_error("they do not measure");
      usleep(1000);
    }
  }
  int open_gate() const { return open(folder.path("gate").c_str(), O_RDWR | O_CLOEXEC); }
  static void expect_good(Launcher& launcher) {
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
    EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
  }
  TemporaryFolder folder;
};

TEST_F(WarmUpOfRanks, IsSilentWhereAllAreAlike) {
  for (const bool has_agents : {true, false}) {
    LauncherOptions given = options("well");
    given.has_agents = has_agents;
    Launcher launcher(given);
    expect_good(launcher);
    EXPECT_THAT(launcher.text, Not(HasSubstr("GFLOP")));
  }
  EXPECT_THAT(events(),
              ElementsAre("start", "measured " + kFigures, "end", "start", "measured " + kFigures, "end"));
  EXPECT_THAT(times_measured(), ElementsAre(2, 2, 2));
}

TEST_F(WarmUpOfRanks, IsLeftOutWhereTheSettingIsOff) {
  LauncherOptions given = options("slow");
  given.warm_up_ms = 0;
  Launcher launcher(given);
  expect_good(launcher);
  EXPECT_THAT(events(), ElementsAre("start", "end"));
  EXPECT_THAT(times_measured(), ElementsAre(0, 0, 0));
}

TEST_F(WarmUpOfRanks, NamesASlowRankAfterThreeRounds) {
  Launcher launcher(options("slow"));
  expect_good(launcher);
  const std::string sentence =
      "rank 1 multiplies matrices at 0.50 of the others' speed (30 of 60 GFLOP/s), before the first step: "
      "the "
      "others will wait for it";
  EXPECT_THAT(launcher.text, HasSubstr(sentence + "\n"));
  EXPECT_THAT(events(), ElementsAre("start", "warm-up " + sentence, testing::StartsWith("measured "), "end"));
  EXPECT_THAT(times_measured(), ElementsAre(3, 3, 3));
}

TEST_F(WarmUpOfRanks, AFullDiskEndsTheJobBeforeItsFirstStep) {
  Launcher launcher(options("full"));
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(
      launcher.text,
      HasSubstr("RESULT -1: rank 1: cannot write 'runs/t/.warm_up.rank1': No space left on device HINT "
                "make room\n"));
  EXPECT_THAT(launcher.text, Not(HasSubstr("is new")));
  EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
}

TEST_F(WarmUpOfRanks, ARankThatDiesIsStartedAgainAndAllAreMeasuredAgain) {
  Launcher launcher(options("die"));
  expect_good(launcher);
  EXPECT_THAT(launcher.text,
              HasSubstr("rank 1 was killed by signal 9 (SIGKILL) before the first step: started again\n"));
  EXPECT_THAT(times_measured(), ElementsAre(2, 2, 2));
  EXPECT_THAT(events(),
              ElementsAre("failure", "restart", "start", "measured " + kFigures, "recovered", "end"));
}

TEST_F(WarmUpOfRanks, ARankThatIsStoppedIsNamedAndThenTreatedAsAnyThatIsStopped) {
  LauncherOptions given = options("stop");
  given.warm_up_ms = 300;
  given.stopped_ms = 1;
  Launcher launcher(given);
  expect_good(launcher);
  EXPECT_THAT(
      launcher.text,
      HasSubstr("rank 1 has not answered the warm-up within 0.3 s: the job goes on without its figures\n"));
  EXPECT_THAT(launcher.text, HasSubstr("rank 1 is stopped (by SIGSTOP or SIGTSTP)"));
  EXPECT_THAT(launcher.text, HasSubstr("and killed before the first step: started again\n"));
}

// Each rank is measured once, whoever is told of it.
TEST_F(WarmUpOfRanks, AnAgentAndAMasterAreKilledInTheMidst) {
  for (const std::string& victim : {std::string("agent"), std::string("master"), std::string("both")}) {
    make_gate();
    Launcher launcher(options("gate"));
    wait_until_all_measure();
    const pid_t agent = child_of(launcher.pid(), "agent"), master = child_of(agent, "master");
    ASSERT_GT(agent, 0);
    ASSERT_GT(master, 0);
    if (victim != "agent") kill(master, SIGKILL);
    if (victim != "master") kill(agent, SIGKILL);
    if (victim != "master") launcher.wait_for_text("another one takes over\n");
    if (victim == "master") launcher.wait_for_text("another one takes up from its journal\n");
    const int gate = open_gate();
    expect_good(launcher);
    close(gate);
    EXPECT_THAT(times_measured(), ElementsAre(1, 1, 1)) << victim << launcher.text;
    EXPECT_THAT(launcher.text, Not(HasSubstr("started again")));
    const std::vector<std::string> all = events();
    EXPECT_EQ(std::count(all.begin(), all.end(), "measured " + kFigures), 1) << victim;
    for (const char* name : {"gate", "measured", "events.jsonl"}) unlink(folder.path(name).c_str());
  }
}

// The ranks say what they have measured while nobody is there: the next agent is told.
TEST_F(WarmUpOfRanks, AnAgentIsStoppedAndReplacedWhileTheRanksAnswer) {
  make_gate();
  Launcher launcher(options("gate"));
  wait_until_all_measure();
  const pid_t agent = child_of(launcher.pid(), "agent");
  ASSERT_GT(agent, 0);
  ASSERT_EQ(kill(agent, SIGSTOP), 0);
  const int gate = open_gate();
  ASSERT_EQ(kill(agent, SIGKILL), 0);
  expect_good(launcher);
  close(gate);
  EXPECT_THAT(times_measured(), ElementsAre(1, 1, 1)) << launcher.text;
  const std::vector<std::string> all = events();
  EXPECT_EQ(std::count(all.begin(), all.end(), "measured " + kFigures), 1);
}

}  // namespace
}  // namespace athanor::tests::warm_up_test
