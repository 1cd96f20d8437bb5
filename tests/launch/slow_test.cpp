// A rank that is slow, with real processes that say how long they have worked: it is named, and so is the end of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher.h"
#include "support/temporary_folder.h"

namespace athanor::tests::slow_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Rank 1 works twice as long on steps 8 to 12 of 20.
LauncherOptions slowed(const TemporaryFolder& folder) {
  return {.num_ranks = 3,
          .arguments = {"recover", "20"},
          .environment = {"TEST_FAIL=slow", "TEST_FOLDER=" + folder.path("")}};
}

std::vector<nlohmann::json> slow_events(const TemporaryFolder& folder) {
  std::vector<nlohmann::json> events;
  std::ifstream file(folder.path("events.jsonl"));
  for (std::string line; std::getline(file, line);)
    if (auto json = nlohmann::json::parse(line); json["event"] == "slow") events.push_back(std::move(json));
  return events;
}

TEST(Slow, RankIsNamedAndSoIsItsRecovery) {
  const TemporaryFolder folder;
  Launcher launcher(slowed(folder));
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  const std::string began =
      "rank 1 is slow: it works 2.0 times as long on a step as before step 8, and the others wait for it 50 "
      "% "
      "of the time";
  const std::string ended = "rank 1 works as fast again as before step 8, after 16m40s";
  EXPECT_THAT(launcher.text, HasSubstr(began + "\n"));
  EXPECT_THAT(launcher.text, HasSubstr(ended + "\n"));
  const auto events = slow_events(folder);
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0]["rank"], 1);
  EXPECT_EQ(events[0]["step"], 9);
  EXPECT_EQ(events[0]["cause"], began);
  EXPECT_DOUBLE_EQ(events[0]["detect_seconds"].get<double>(), 400.0);
  EXPECT_EQ(events[1]["rank"], 1);
  EXPECT_EQ(events[1]["step"], 13);
  EXPECT_EQ(events[1]["cause"], ended);
  EXPECT_DOUBLE_EQ(events[1]["recover_seconds"].get<double>(), 1000.0);
}

TEST(Slow, IsNotToldWhereTheSettingIsOff) {
  const TemporaryFolder folder;
  LauncherOptions options = slowed(folder);
  options.tells_slow = false;
  Launcher launcher(options);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
  EXPECT_THAT(launcher.text, Not(HasSubstr("slow")));
  EXPECT_THAT(slow_events(folder), IsEmpty());
}

}  // namespace
}  // namespace athanor::tests::slow_test
