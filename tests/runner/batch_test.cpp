// No case is lost, however a program ends: victims.cpp has one for each way.
#include "runner/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "runner/events.h"
#include "support/places.h"
#include "support/temporary_folder.h"
#include "support/tiers.h"

namespace athanor::tests::batch_test {
namespace {

using Kind = CaseResult::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<CaseResult> results_of(const std::vector<std::string>& cases, int silence_s = 1200) {
  const TemporaryFolder folder;
  return run_batch({.program = built("tests/runner_victims"), .prefix = "x.", .cases = cases},
                   {.folder = folder.path(""), .silence_s = silence_s});
}

std::vector<std::pair<std::string, Kind>> kinds_of(const std::vector<CaseResult>& results) {
  std::vector<std::pair<std::string, Kind>> kinds;
  for (const CaseResult& each : results) kinds.emplace_back(each.name, each.kind);
  return kinds;
}

TEST(Batch, EachCaseHasItsOwnResultAndOutput) {
  const auto results = results_of({"Victims.Pass", "Victims.Fail", "Victims.Skip", "Victims.PassAfterwards"});
  EXPECT_THAT(kinds_of(results), ElementsAre(std::pair("x.Victims.Pass", Kind::passed),
                                             std::pair("x.Victims.Fail", Kind::failed),
                                             std::pair("x.Victims.Skip", Kind::skipped),
                                             std::pair("x.Victims.PassAfterwards", Kind::passed)));
  EXPECT_THAT(results[1].text, HasSubstr("1 + 1"));
  EXPECT_THAT(results[1].text, HasSubstr("seen before it failed"));
  EXPECT_THAT(results[1].text, Not(HasSubstr("not worth a word")));
  EXPECT_EQ(results[2].text, "for two reasons");
}

TEST(Batch, ACaseThatDiesIsNamedAndThoseAfterItAreRun) {
  const auto results = results_of(
      {"Victims.Pass", "Victims.Fail", "Victims.Crash", "Victims.Leave", "Victims.PassAfterwards"});
  EXPECT_THAT(
      kinds_of(results),
      ElementsAre(std::pair("x.Victims.Pass", Kind::passed), std::pair("x.Victims.Fail", Kind::failed),
                  std::pair("x.Victims.Crash", Kind::failed), std::pair("x.Victims.Leave", Kind::failed),
                  std::pair("x.Victims.PassAfterwards", Kind::passed)));
  EXPECT_THAT(results[2].text, HasSubstr("ended in this case: signal 11"));
  EXPECT_THAT(results[2].text, HasSubstr("last words"));
  EXPECT_THAT(results[3].text, HasSubstr("ended in this case: exit code 0"));
}

TEST(Batch, ACaseThatHangsIsKilledAndThoseAfterItAreRun) {
  const auto results = results_of({"Victims.Hang", "Victims.PassAfterwards"}, 1);
  EXPECT_THAT(kinds_of(results), ElementsAre(std::pair("x.Victims.Hang", Kind::failed),
                                             std::pair("x.Victims.PassAfterwards", Kind::passed)));
  EXPECT_THAT(results[0].text, HasSubstr("nothing was heard of it"));
}

TEST(Batch, CasesThatAreNotThereHaveFailed) {
  EXPECT_THAT(
      kinds_of(results_of({"Victims.Pass", "Victims.OfNoName"})),
      ElementsAre(std::pair("x.Victims.Pass", Kind::passed), std::pair("x.Victims.OfNoName", Kind::failed)));
  const TemporaryFolder folder;
  const auto results = run_batch({.program = folder.path("nothing"), .prefix = "x.", .cases = {"A.b"}},
                                 {.folder = folder.path("")});
  EXPECT_THAT(kinds_of(results), ElementsAre(std::pair("x.A.b", Kind::failed)));
  EXPECT_THAT(results[0].text, HasSubstr("exit code 127"));
}

TEST(Batch, AProgramThatFailsAtItsEndHasFailed) {
  const auto results = results_of({"Victims.Pass", "Leaving.BadExitCode"});
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[2].kind, Kind::failed);
  EXPECT_THAT(results[2].text, HasSubstr("failed at its end: exit code 3"));
}

TEST(Batch, ChildrenOfACaseSayNothing) {
  EXPECT_THAT(kinds_of(results_of({"Victims.ChildrenSayNothing"})),
              ElementsAre(std::pair("x.Victims.ChildrenSayNothing", Kind::passed)));
}

TEST(Batch, ALeakIsThatOfTheCaseThatLeftIt) {
  LEAVE_OUT_UNDER(thread_sanitizer, "it looks for no leaks");
  const auto results = results_of({"Victims.Pass", "Leaking.InACase", "Leaking.NotInTheNext"});
  EXPECT_THAT(kinds_of(results),
              ElementsAre(std::pair("x.Victims.Pass", Kind::passed),
                          std::pair("x.Leaking.InACase", address_sanitizer ? Kind::failed : Kind::passed),
                          std::pair("x.Leaking.NotInTheNext", Kind::passed)));
}

TEST(Command, IsJudgedByItsExitCode) {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& script) {
    return run_command("c", {"/bin/sh", "-c", script}, {.folder = folder.path("")});
  };
  EXPECT_EQ(run("exit 0").kind, Kind::passed);
  const CaseResult skipped = run("echo SKIPPED: no GPU; exit 77");
  EXPECT_EQ(skipped.kind, Kind::skipped);
  EXPECT_EQ(skipped.text, "no GPU");
  const CaseResult failed = run("echo its words; exit 4");
  EXPECT_EQ(failed.kind, Kind::failed);
  EXPECT_THAT(failed.text, HasSubstr("exit code 4\nits words"));
  EXPECT_THAT(run("kill -9 $$").text, HasSubstr("signal 9"));
}

TEST(Batch, CasesWorkInMemoryUnlessTheyAskForADisk) {
  const TemporaryFolder disk, memory;
  for (const bool on_disk : {false, true}) {
    const auto results = run_batch({.program = built("tests/runner_victims"),
                                    .prefix = "x.",
                                    .cases = {"Victims.SayWhere"},
                                    .on_disk = on_disk},
                                   {.folder = disk.path(""), .memory = memory.path("")});
    ASSERT_EQ(results.size(), 1u);
    const std::string folder = (on_disk ? disk : memory).path("") + "/work";
    EXPECT_THAT(results[0].text, HasSubstr("in " + std::filesystem::canonical(folder).string() + "."));
    EXPECT_THAT(results[0].text, HasSubstr("Its files in " + folder + "."));
  }
}

TEST(Cases, AreListedAsTheProgramNamesThem) {
  const TemporaryFolder folder;
  EXPECT_THAT(cases_of(built("tests/runner_victims"), "Lea*", {.folder = folder.path("")}),
              ElementsAre("Leaving.BadExitCode", "Leaking.InACase", "Leaking.NotInTheNext"));
  EXPECT_THROW(cases_of(folder.path("nothing"), "*", {.folder = folder.path("")}), std::runtime_error);
}

TEST(Events, ATornLastLineIsNone) {
  const std::string line = to_line({.kind = TestEvent::Kind::skipped,
                                    .name = "A.b",
                                    .output_bytes = 7,
                                    .milliseconds = 31,
                                    .reason = "c\nd"});
  const auto events = events_of(line + line.substr(0, 5));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, TestEvent::Kind::skipped);
  EXPECT_EQ(events[0].name, "A.b");
  EXPECT_EQ(events[0].output_bytes, 7u);
  EXPECT_EQ(events[0].milliseconds, 31);
  EXPECT_EQ(events[0].reason, "c d");
}

}  // namespace
}  // namespace athanor::tests::batch_test
