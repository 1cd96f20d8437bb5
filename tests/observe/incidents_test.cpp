// Which events are incidents, and what they have cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/observe/event_log.h"
#include "athanor/observe/incidents.h"
#include "support/temporary_folder.h"

namespace athanor::tests::incidents_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

Incidents of(const std::vector<RunEvent>& events) {
  Incidents incidents;
  for (const RunEvent& event : events) incidents.take(event);
  return incidents;
}

TEST(Incidents, OneRecoveryEndsAllThatAreOpenAndIsCountedOnce) {
  const Incidents incidents =
      of({{.event = "start"},
          {.event = "failure", .step = 7, .rank = 1, .cause = "killed"},
          {.event = "failure", .step = 7, .rank = 2, .cause = "killed, too"},
          {.event = "restart", .rank = 1},
          {.event = "guard", .cause = "only said"},
          {.event = "recovered", .recover_seconds = 0.5, .lost_steps = 3},
          {.event = "snapshot"},
          {.event = "recovered", .recover_seconds = 0.25, .lost_steps = 0},
          {.event = "guard", .cause = "undone", .recover_seconds = 2.0, .lost_steps = 1},
          {.event = "failure", .rank = 0},
          {.event = "end"}});
  std::vector<double> recovered;
  for (const RunEvent& incident : incidents.all()) recovered.push_back(incident.recover_seconds);
  EXPECT_THAT(recovered, ElementsAre(0.5, 0.5, -1.0, 0.25, 2.0, -1.0));
  EXPECT_THAT(incidents.lost_seconds(),
              ElementsAre(Pair("failure", 0.5), Pair("snapshot", 0.25), Pair("guard", 2.0)));
  EXPECT_EQ(incidents.total_lost_seconds(), 2.75);
  EXPECT_EQ(incidents.all()[1].lost_steps, 3);
}

TEST(Incidents, AreWrittenWithWhatIsNotKnownAsNull) {
  Report report;
  Incidents().put_into(report);
  EXPECT_EQ(report.to_json_line(), "{\"incidents\":[],\"num_incidents\":0,\"lost_seconds\":{}}");
  Incidents many;
  for (int64_t i = 0; i < 250; ++i)
    many.take({.event = "failure", .step = i, .cause = "killed", .time = 1.5});
  Report listed;
  many.put_into(listed);
  const auto json = nlohmann::json::parse(listed.to_json());
  EXPECT_EQ(json["num_incidents"], 250);
  ASSERT_EQ(json["incidents"].size(), Incidents::kMostListed);
  EXPECT_EQ(json["incidents"].back()["step"], 249);
  EXPECT_TRUE(json["incidents"].back()["rank"].is_null());
  EXPECT_TRUE(json["incidents"].back()["recover_seconds"].is_null());
}

TEST(Events, AreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  EventLog log(system_env(), [](const std::string& why) { FAIL() << why; });
  RunEvent first{.event = "failure",
                 .step = 4,
                 .generation = 1,
                 .rank = 2,
                 .cause = "a \"word\"\n",
                 .detect_seconds = 0.25};
  first.time = log.add(first);
  log.open(folder.path(""));
  RunEvent second{.event = "end"};
  second.time = log.add(second);
  const std::string text = system_env().read_text(folder.path(kEventsName));
  EXPECT_THAT(read_events(text), ElementsAre(first, second));
  EXPECT_THAT(read_events("[1]\nno JSON\n{\"event\":7}\n" + text + "{\"event\":\"torn\""),
              ElementsAre(first, second));
}

}  // namespace
}  // namespace athanor::tests::incidents_test
