// A rank that dies is started again, with real processes: at any stage of its life, whoever it is, however many at once.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "launcher.h"
#include "support/temporary_folder.h"

namespace athanor::tests::recovery_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRanks = 3;
const std::string kNothingLeft = "LEFT 0 descriptors, 0 children, 0 sockets\n";

// What a rank says of itself at its end: its token is the number of the process that began with it.
struct RankEnd {
  int size, process, token, step;
};

// By rank: the newest process that began with nothing.
std::map<int, int> new_tokens(const std::string& text) {
  std::map<int, int> tokens;
  const std::regex line("rank ([0-9]+): token ([0-9]+) is new\n");
  for (auto found = std::sregex_iterator(text.begin(), text.end(), line); found != std::sregex_iterator();
       ++found)
    tokens[std::stoi((*found)[1].str())] = std::stoi((*found)[2].str());
  return tokens;
}

std::map<int, RankEnd> ends_of(const std::string& text) {
  std::map<int, RankEnd> ends;
  const std::regex line("rank ([0-9]+) of ([0-9]+): process ([0-9]+), token ([0-9]+), step ([0-9]+)\n");
  for (auto found = std::sregex_iterator(text.begin(), text.end(), line); found != std::sregex_iterator();
       ++found) {
    const auto number = [&](size_t group) { return std::stoi((*found)[group].str()); };
    ends[number(1)] = {number(2), number(3), number(4), number(5)};
  }
  return ends;
}

size_t count(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

// All ranks do all steps, those that never died in one process, those that died with the state of their first one.
void expect_recovered(const Launcher& launcher, int victim, bool had_begun, int steps = 20) {
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
  const auto ends = ends_of(launcher.text);
  ASSERT_EQ(ends.size(), static_cast<size_t>(kRanks)) << launcher.text;
  for (const auto& [rank, end] : ends) {
    EXPECT_EQ(end.size, kRanks);
    EXPECT_EQ(end.step, steps);
    const bool died = rank == victim || victim == -1;
    EXPECT_EQ(end.process == end.token, !died || !had_begun) << launcher.text;
    EXPECT_EQ(end.token, new_tokens(launcher.text).at(rank)) << launcher.text;
  }
}

TEST(Recovery, KilledAtAnyStageOfItsLife) {
  for (const std::string stage : {"hello", "ready", "meet", "begin", "begun", "1", "7", "20"})
    for (const int victim : {0, 1, 2}) {
      SCOPED_TRACE("rank " + std::to_string(victim) + " at " + stage);
      const bool had_begun = stage == "begun" || std::isdigit(stage[0]) != 0;
      Launcher launcher({.num_ranks = kRanks,
                         .arguments = {"recover", "20", std::to_string(victim), stage},
                         .max_restarts = 10});
      launcher.finish();
      expect_recovered(launcher, victim, had_begun);
      EXPECT_THAT(launcher.text,
                  HasSubstr("rank " + std::to_string(victim) + " was killed by signal 9 (SIGKILL) "));
      EXPECT_THAT(launcher.text, HasSubstr(": started again\n"));
      EXPECT_EQ(count(launcher.text, "has slots of " + std::to_string(victim) + "\n"), had_begun ? 1u : 0u);
      EXPECT_THAT(launcher.text, Not(HasSubstr("athanor: error")));
    }
}

TEST(Recovery, AllRanksAtOnce) {
  for (const std::string stage : {"hello", "meet", "begun", "7"}) {
    SCOPED_TRACE(stage);
    Launcher launcher({.num_ranks = kRanks, .arguments = {"recover", "20", "-1", stage}, .max_restarts = 10});
    launcher.finish();
    expect_recovered(launcher, -1, stage == "begun" || stage == "7");
  }
}

// The one that takes its place dies as well, before or after it has met the others: the first one's slots are still there.
TEST(Recovery, TwiceBeforeTheNextGenerationBegins) {
  for (const std::string again : {"hello", "ready", "meet", "begin"}) {
    SCOPED_TRACE(again);
    Launcher launcher({.num_ranks = kRanks,
                       .arguments = {"recover", "20", "1", "7"},
                       .environment = {"TEST_DIE_AGAIN=" + again},
                       .max_restarts = 10});
    launcher.finish();
    expect_recovered(launcher, 1, true);
    EXPECT_EQ(count(launcher.text, "rank 1 was killed by signal 9"), 2u);
  }
}

// The memory of the generation before is this one's: whoever dies in it leaves that, not the new one, which is empty.
TEST(Recovery, SlotsThatStayInPlaceArePassedOn) {
  for (const std::string again : {"begun", "12"}) {
    SCOPED_TRACE(again);
    Launcher launcher({.num_ranks = kRanks,
                       .arguments = {"recover", "20", "1", "7"},
                       .environment = {"TEST_IN_PLACE=yes", "TEST_DIE_AGAIN=" + again},
                       .max_restarts = 10});
    launcher.finish();
    expect_recovered(launcher, 1, true);
    EXPECT_EQ(count(launcher.text, "rank 1 was killed by signal 9"), 2u);
    EXPECT_EQ(count(launcher.text, "rank 1 has slots of 1\n"), 2u);
  }
}

TEST(Recovery, AnEndlessFailureEndsTheJobAndIsNamed) {
  Launcher launcher({.num_ranks = kRanks,
                     .arguments = {"recover", "20", "2", "meet", "100"},
                     .max_restarts = 10,
                     .min_ranks = kRanks});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(
      launcher.text,
      HasSubstr("RESULT 2: rank 2 was killed by signal 9 (SIGKILL), 3 times before the first step HINT"));
  EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
}

TEST(Recovery, OrTheJobGoesOnWithARankLess) {
  Launcher launcher({.num_ranks = kRanks,
                     .arguments = {"recover", "20", "1", "begun", "2"},
                     .max_restarts = 1,
                     .min_ranks = 2});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  const auto ends = ends_of(launcher.text);
  ASSERT_EQ(ends.size(), 2u) << launcher.text;
  for (const auto& [rank, end] : ends) EXPECT_EQ(end.step, 20);
  EXPECT_EQ(ends.at(0).process, ends.at(0).token);
  EXPECT_NE(ends.at(1).process, ends.at(1).token);
  EXPECT_EQ(count(launcher.text, "rank 0 has slots of 2\n"), 1u);
  EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
}

// A group that breaks while all live: those who wait are told, and all keep their processes.
TEST(Recovery, RanksThatLoseEachOtherMeetAgain) {
  Launcher launcher({.num_ranks = kRanks,
                     .arguments = {"recover", "20"},
                     .environment = {"TEST_FAIL=leave"},
                     .max_restarts = 10});
  launcher.finish();
  expect_recovered(launcher, -2, true);
  EXPECT_THAT(launcher.text,
              HasSubstr("the ranks lost each other at step 7: nobody came; they meet again\n"));
  EXPECT_EQ(count(launcher.text, "has slots"), 0u);
}

TEST(Recovery, LastWordsDecide) {
  Launcher io({.num_ranks = kRanks,
               .arguments = {"recover", "20"},
               .environment = {"TEST_FAIL=io"},
               .max_restarts = 10});
  io.finish();
  expect_recovered(io, 1, true);
  EXPECT_THAT(io.text, HasSubstr("rank 1 exited with code 1 at step 7: started again\n"));
  Launcher error({.num_ranks = kRanks,
                  .arguments = {"recover", "20"},
                  .environment = {"TEST_FAIL=error"},
                  .max_restarts = 10});
  error.finish();
  EXPECT_EQ(error.exit_code, 1);
  EXPECT_THAT(error.text, HasSubstr("RESULT 1: rank 1 exited with code 1: what was said at last HINT"));
  EXPECT_THAT(error.text, Not(HasSubstr("started again")));
}

TEST(Recovery, NotWithoutRestarts) {
  Launcher launcher({.num_ranks = kRanks, .arguments = {"recover", "20", "1", "7"}});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, HasSubstr("RESULT 1: rank 1 was killed by signal 9 (SIGKILL)"));
  EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
}

// Its replacement is not there yet when the operator asks to stop: the next generation saves.
TEST(Recovery, StopWhileRanksMeet) {
  const TemporaryFolder folder;
  const std::string gate = folder.path("gate");
  ASSERT_EQ(mkfifo(gate.c_str(), 0600), 0);
  Launcher launcher({.num_ranks = kRanks,
                     .arguments = {"recover", "1000000", "1", "7"},
                     .environment = {"TEST_GATE=" + gate},
                     .max_restarts = 10});
  launcher.wait_for_text("[rank 1] at the gate\n");
  ASSERT_EQ(kill(launcher.pid(), SIGTERM), 0);
  launcher.wait_for_text("rank 0: stops at signal 15\n");
  close(open(gate.c_str(), O_WRONLY));
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 75) << launcher.text;
  const auto ends = ends_of(launcher.text);
  ASSERT_EQ(ends.size(), static_cast<size_t>(kRanks)) << launcher.text;
  for (const auto& [rank, end] : ends) EXPECT_GE(end.step, 6);
  EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
}

// As a second Ctrl-C does.
TEST(Recovery, ASecondStopWhileRanksMeetKills) {
  const TemporaryFolder folder;
  const std::string gate = folder.path("gate");
  ASSERT_EQ(mkfifo(gate.c_str(), 0600), 0);
  Launcher launcher({.num_ranks = kRanks,
                     .arguments = {"recover", "1000000", "1", "7"},
                     .environment = {"TEST_GATE=" + gate},
                     .ms_a_signal = 1000,
                     .max_restarts = 10});
  launcher.wait_for_text("[rank 1] at the gate\n");
  kill(launcher.pid(), SIGTERM);
  launcher.wait_for_text("rank 0: stops at signal 15\n");
  kill(launcher.pid(), SIGTERM);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 1);
  EXPECT_THAT(launcher.text, HasSubstr("interrupted by signal 15 (SIGTERM) and killed"));
  EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
}

// A survivor that hangs does not hold up the others for ever.
TEST(Recovery, ARankThatDoesNotComeBackIsReplaced) {
  Launcher launcher({.num_ranks = kRanks,
                     .arguments = {"recover", "20", "1", "7"},
                     .environment = {"TEST_HANG=2"},
                     .grace_ms = 100,
                     .max_restarts = 10});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  EXPECT_THAT(launcher.text, HasSubstr("rank 2 did not come back within 0.2 s: killed\n"));
  EXPECT_EQ(count(launcher.text, "rank 2 has slots of 2\n"), 1u);
  EXPECT_EQ(ends_of(launcher.text).size(), 3u);
}

TEST(Recovery, WhatHappenedIsWrittenDown) {
  const TemporaryFolder folder;
  for (int run = 0; run < 2; ++run) {
    Launcher launcher({.num_ranks = kRanks,
                       .arguments = {"recover", "20", "1", "7"},
                       .environment = {"TEST_FOLDER=" + folder.path("")},
                       .max_restarts = 10});
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  }
  std::ifstream file(folder.path("events.jsonl"));
  std::vector<std::string> names;
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(file, line);) {
    events.push_back(nlohmann::json::parse(line));
    names.push_back(events.back()["event"]);
  }
  EXPECT_THAT(names, ElementsAre("start", "failure", "restart", "recovered", "end", "start", "failure",
                                 "restart", "recovered", "end"));
  const auto& failure = events.at(1);
  EXPECT_EQ(failure["rank"], 1);
  EXPECT_EQ(failure["node"], 0);
  EXPECT_EQ(failure["generation"], 0);
  EXPECT_EQ(failure["cause"], "was killed by signal 9 (SIGKILL)");
  EXPECT_TRUE(failure["detect_seconds"].is_number());
  EXPECT_TRUE(failure["recover_seconds"].is_null());
  EXPECT_GT(failure["time"], 1.7e9);
  const auto& recovered = events.at(3);
  EXPECT_EQ(recovered["generation"], 1);
  EXPECT_GE(recovered["step"], 6);
  EXPECT_GT(recovered["recover_seconds"], 0.0);
  EXPECT_GE(recovered["lost_steps"], 0);
  EXPECT_EQ(events.at(4)["cause"], "finished");
}

TEST(Recovery, EventsThatCannotBeWrittenHarmNothing) {
  Launcher launcher({.num_ranks = kRanks,
                     .arguments = {"recover", "20", "1", "7"},
                     .environment = {"TEST_FOLDER=/no/such/folder"},
                     .max_restarts = 10});
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  EXPECT_EQ(count(launcher.text, "events are not written any more"), 1u);
}

TEST(Recovery, AStoppedRankIsNamedAndGoesOnWhenItIsLetGo) {
  TemporaryFolder folder;
  Launcher launcher({.num_ranks = kRanks,
                     .arguments = {"recover", "20"},
                     .environment = {"TEST_FAIL=stop", "TEST_FOLDER=" + folder.path("")},
                     .max_restarts = 10});
  launcher.wait_for_text("rank 1 is stopped (by SIGSTOP or SIGTSTP): kill -CONT ");
  const size_t at = launcher.text.size();
  launcher.wait_for_text(" lets it go on");
  kill(std::stoi(launcher.text.substr(at)), SIGCONT);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  EXPECT_EQ(ends_of(launcher.text).at(1).process, new_tokens(launcher.text).at(1));
  EXPECT_THAT(launcher.text, Not(HasSubstr("started again")));
  EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
  std::ifstream file(folder.path("events.jsonl"));
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) names.push_back(nlohmann::json::parse(line)["event"]);
  EXPECT_THAT(names, ElementsAre("start", "stopped", "end"));
}

TEST(Recovery, ARankThatStaysStoppedIsKilledAndStartedAgain) {
  Launcher launcher({.num_ranks = kRanks,
                     .arguments = {"recover", "20"},
                     .environment = {"TEST_FAIL=stop"},
                     .max_restarts = 10,
                     .stopped_ms = 1});
  launcher.finish();
  expect_recovered(launcher, 1, true);
  EXPECT_EQ(count(launcher.text, "rank 1 is stopped (by SIGSTOP or SIGTSTP): "), 1u);
  EXPECT_THAT(launcher.text, HasSubstr(" s and killed at step 7: started again\n"));
}

}  // namespace
}  // namespace athanor::tests::recovery_test
