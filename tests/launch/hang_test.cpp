// A rank that does not go on, with real processes: it is named, with where it stands, and started again where that is wanted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "launcher.h"
#include "support/temporary_folder.h"
#include "support/tiers.h"

namespace athanor::tests::hang_test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Rank 1 stands still after step 7 of 20.
LauncherOptions hanging(const TemporaryFolder& folder) {
  return {.num_ranks = 3,
          .arguments = {"recover", "20"},
          .environment = {"TEST_FAIL=hang", "TEST_FOLDER=" + folder.path("")},
          .max_restarts = 10,
          .hang_ms = 300};
}

nlohmann::json event(const TemporaryFolder& folder, const std::string& name) {
  std::ifstream file(folder.path("events.jsonl"));
  for (std::string line; std::getline(file, line);)
    if (const auto json = nlohmann::json::parse(line); json["event"] == name) return json;
  return {};
}

TEST(Hang, IsNamedWithWhereItStandsAndWaitedFor) {
  LEAVE_OUT_UNDER(thread_sanitizer, "its own frames stand among those that are looked for");
  const TemporaryFolder folder;
  Launcher launcher(hanging(folder));
  launcher.wait_for_text("; the others wait for it\n");
  EXPECT_THAT(launcher.text,
              ContainsRegex("no rank has done a step for .* \\(usually .*\\): rank 1 sleeps .*stands_still"));
  std::smatch process;
  const std::string said = launcher.text;
  ASSERT_TRUE(std::regex_search(said, process, std::regex("rank 1: token ([0-9]+) is new")));
  kill(std::stoi(process[1].str()), SIGKILL);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  EXPECT_THAT(launcher.text, HasSubstr("rank 1 was killed by signal 9 (SIGKILL) at step 7: started again\n"));
  EXPECT_THAT(launcher.text, HasSubstr("LEFT 0 descriptors, 0 children, 0 sockets"));
  EXPECT_EQ(event(folder, "hang")["rank"], 1);
  EXPECT_THAT(event(folder, "hang")["cause"], HasSubstr("the others wait for it"));
}

TEST(Hang, IsKilledAndStartedAgainWhereTheSettingWantsIt) {
  LEAVE_OUT_UNDER(thread_sanitizer, "its own frames stand among those that are looked for");
  for (const HangAction hang : {HangAction::act, HangAction::warn}) {
    const TemporaryFolder folder;
    LauncherOptions options = hanging(folder);
    options.hang = hang;
    if (hang == HangAction::warn) options.timeout_ms = 400;  // then it has been waited for long enough
    Launcher launcher(options);
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
    EXPECT_THAT(
        launcher.text,
        ContainsRegex("rank 1 held up the others for .* s and was killed at step 7: started again\n"));
    EXPECT_THAT(event(folder, "failure")["cause"], HasSubstr("held up the others"));
  }
}

// A stopped rank is the other watch's: it is not told twice.
TEST(Hang, OfAStoppedRankIsToldOnce) {
  const TemporaryFolder folder;
  LauncherOptions options = hanging(folder);
  options.hang_ms = 1000;
  options.environment = {"TEST_FAIL=stop", "TEST_FOLDER=" + folder.path("")};
  options.stopped_ms = 3000;
  Launcher launcher(options);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  EXPECT_THAT(launcher.text, HasSubstr("rank 1 is stopped (by SIGSTOP or SIGTSTP)"));
  EXPECT_THAT(launcher.text, Not(HasSubstr("no rank has done a step")));
}

}  // namespace
}  // namespace athanor::tests::hang_test
