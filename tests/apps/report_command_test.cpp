// report.html, the page of a run: as each run leaves it, and as `athanor report` makes it anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "apps/small_run.h"

namespace athanor::tests::report_command_test {
namespace {

using ::testing::HasSubstr;

class Report : public ::testing::Test {
 protected:
  void SetUp() override { make_small_run(place); }
  std::string page() const { return place.read(run_file("t", "report.html")); }
  void expect_loads_nothing() const {
    for (const char* loading : {"<script", "<link", " src=", " href=", "url(", "@import"})
      EXPECT_EQ(page().find(loading), std::string::npos) << loading;
  }
  Workplace place;
};

TEST_F(Report, ARunThatEndsLeavesItsPage) {
  for (const int ranks : {1, 2}) {
    place.remove("runs");
    const Outcome outcome = train(place, "t", {}, ranks);
    EXPECT_THAT(outcome.all(), HasSubstr("runs/t/report.html"));
    expect_loads_nothing();
    for (const char* shown :
         {"finished", "training loss", "<th>data.channels</th><td>[ {name = &quot;en&quot;"})
      EXPECT_NE(page().find(shown), std::string::npos) << shown;
    // What the command makes of the same files is the same page.
    const std::string left = page();
    const Json said = Json::parse(place.output_of({"report", "runs/t", "--json", "--output", "again.html"}));
    EXPECT_TRUE(place.read("again.html") == left);
    EXPECT_EQ(said["status"], "finished");
    EXPECT_EQ(said["step"], kSteps);
    EXPECT_EQ(said["damaged_lines"], 0);
  }
}

TEST_F(Report, OneThatIsInterruptedAndOneThatFailsToo) {
  Program run = place.start(train_arguments("t", kEndless));
  ASSERT_TRUE(run.wait_until([&] { return num_lines(place, "t") >= 3; }));
  run.signal(SIGTERM);
  EXPECT_EQ(run.finish().exit_code, 75);
  EXPECT_NE(page().find("interrupted"), std::string::npos);
  place.remove("runs");
  const Outcome failed =
      place.run(train_arguments("t", {"optimizer.lr=1e30", "optimizer.max_grad_norm=0",
                                      "schedule.decay=constant", "schedule.warmup_steps=0"}));
  EXPECT_EQ(failed.exit_code, 1) << failed.all();
  EXPECT_NE(page().find("failed"), std::string::npos);
  EXPECT_NE(page().find("not finite"), std::string::npos);
}

// A run that is refused has not begun: the page of the run that is there stays.
TEST_F(Report, ARefusalLeavesThePageThatIsThere) {
  train(place, "t");
  place.write(run_file("t", "report.html"), "mine");
  EXPECT_NE(place.run(train_arguments("t", {"train.seed=2"})).exit_code, 0);
  EXPECT_EQ(page(), "mine");
}

TEST_F(Report, APageThatCannotBeWrittenFailsNoRun) {
  place.write("runs/t/report.html/taken", "");
  const Outcome outcome = train(place, "t");
  EXPECT_THAT(outcome.all(), HasSubstr("report.html could not be written"));
  EXPECT_EQ(report(place, "t")["status"], "finished");
}

TEST_F(Report, DamagedLinesAreLeftOutAndCounted) {
  train(place, "t");
  std::string lines = place.read(run_file("t", "metrics.jsonl"));
  lines.insert(lines.find('\n') + 1, "no line of metrics\n");
  place.write(run_file("t", "metrics.jsonl"), lines);
  const Json said = Json::parse(place.output_of({"report", "runs/t", "--json"}));
  EXPECT_EQ(said["damaged_lines"], 1);
  EXPECT_NE(page().find("1 of metrics.jsonl"), std::string::npos);
}

TEST_F(Report, WhatIsNoRunIsRefused) {
  expect_refused(place.run({"report", "nowhere"}), 1, {"'nowhere' does not exist", "runs/first"});
  place.write("folder/file", "");
  expect_refused(place.run({"report", "folder"}), 1, {"'folder' is not the folder of a run"});
  EXPECT_FALSE(place.exists("folder/report.html"));
}

}  // namespace
}  // namespace athanor::tests::report_command_test
