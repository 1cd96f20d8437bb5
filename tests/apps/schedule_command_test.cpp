// athanor schedule as its user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/small_run.h"

namespace athanor::tests::schedule_command_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ScheduleCommand : public ::testing::Test {
 protected:
  Outcome run(std::vector<std::string> words) const {
    words.insert(words.begin(), "schedule");
    return place.run(words);
  }
  Json facts(std::vector<std::string> words) const {
    words.emplace_back("--json");
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    EXPECT_EQ(outcome.err, "");
    return Json::parse(outcome.out);
  }
  Workplace place;
};

TEST_F(ScheduleCommand, ShowsATimelineAndItsFigures) {
  const Outcome outcome = run({"1f1b", "--ranks", "2", "--micro-batches", "2"});
  EXPECT_EQ(outcome.out,
            "1f1b: 2 ranks, 2 stages, 2 micro-batches\n"
            "rank 0 | F0 F1 ......B0    ...B1\n"
            "rank 1 | ...F0 B0    F1 B1    ......\n"
            "makespan 9, bubble 3 (closed form 3), 33.3 % of all ranks' time idle\n"
            "peak activations per rank, in micro-batches of a stage: 2 1\n");
  EXPECT_EQ(outcome.exit_code, 0);
}

TEST_F(ScheduleCommand, JsonHasEveryFigure) {
  const Json json = facts({"zb-h1", "--ranks", "3", "--micro-batches", "6", "--times", "4,5,3"});
  EXPECT_EQ(json["name"], "zb-h1");
  EXPECT_EQ(json["ranks"], 3);
  EXPECT_EQ(json["stages"], 3);
  EXPECT_EQ(json["micro_batches"], 6);
  EXPECT_EQ(json["rank_of_stage"], Json({0, 1, 2}));
  EXPECT_EQ(json["times"][2], Json({4.0, 5.0, 3.0}));
  EXPECT_EQ(json["bubble"], 12.0);
  EXPECT_EQ(json["closed_form_bubble"], 12.0);
  EXPECT_EQ(json["makespan"], 6 * 12.0 + 12.0);
  EXPECT_EQ(json["peak_activations"], Json({3.0, 3.0, 3.0}));
  EXPECT_EQ(json["actions"][2][1], "2I0");
  // The form does not hold where the stages differ or links take time.
  EXPECT_TRUE(facts({"zb-h1", "--link", "1"})["closed_form_bubble"].is_null());
  EXPECT_TRUE(facts({"gpipe", "--ranks", "2", "--times", "1,1,1", "--times", "1,1,2"})["closed_form_bubble"]
                  .is_null());
}

TEST_F(ScheduleCommand, EveryScheduleGoesThroughAFile) {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-v", "dualpipe-v", "auto"}) {
    Json made = facts({name, "--ranks", "3", "--micro-batches", "5", "--csv", "s.csv", "--svg", "s.svg"});
    Json read = facts({"s.csv", "--csv", "again.csv"});
    EXPECT_EQ(place.read("again.csv"), place.read("s.csv")) << name;
    EXPECT_THAT(place.read("s.svg"), HasSubstr("</svg>"));
    EXPECT_EQ(read["name"], "s.csv");
    for (const char* key : {"actions", "rank_of_stage", "makespan", "bubble_share", "peak_activations"})
      EXPECT_EQ(read[key], made[key]) << name << " " << key;
  }
}

TEST_F(ScheduleCommand, SolvesWithinALimit) {
  const std::vector<std::string> shape = {"--ranks", "4", "--micro-batches", "12", "--times", "10,13,7"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), shape.begin(), shape.end());
    return facts(words);
  };
  const double known = with({"zb-h1"})["makespan"];
  const Json tight = with({"auto", "--memory", "4"}), wide = with({"auto", "--memory", "8"});
  EXPECT_LE(tight["makespan"].get<double>(), known);
  EXPECT_LT(wide["makespan"].get<double>(), known);
  for (const Json& peak : tight["peak_activations"]) EXPECT_LE(peak.get<double>(), 4.0);
  EXPECT_TRUE(tight["made_from"].is_string());
  EXPECT_THAT(place.output_of({"schedule", "auto"}), HasSubstr("made from: "));
}

TEST_F(ScheduleCommand, Refusals) {
  expect_refused(run({"solve"}), 2, {"got 'solve'", "did you mean 'auto'?"});
  expect_refused(run({"1f1"}), 2, {"1f1", "did you mean '1f1b'", "auto"});
  expect_refused(run({}), 2, {"NAME"});
  expect_refused(run({"gpipe", "--ranks", "0"}), 2, {"--ranks"});
  expect_refused(run({"gpipe", "--ranks", "-1"}), 2, {"--ranks"});
  expect_refused(run({"gpipe", "--micro-batches", "99999999999"}), 2, {"--micro-batches"});
  expect_refused(run({"gpipe", "--ranks", "1000000", "--micro-batches", "1000000"}), 2, {"at most"});
  expect_refused(run({"zb-v", "--virtual-stages", "3"}), 2, {"zb-v", "got 3", "expected 2"});
  for (const char* times :
       {"1,1", "1,1,1,1", "a,b,c", "1,1,-1", "1,1,nan", "1,1,inf", "", ",,", "1,1,1,", "1 ,1,1"})
    expect_refused(run({"gpipe", "--times", times}), 2, {"--times", "F,B,W"});
  expect_refused(run({"gpipe", "--times", "1,1,1", "--times", "1,1,1"}), 2,
                 {"got the times of 2 stages, expected 4"});
  expect_refused(run({"gpipe", "--link", "-1"}), 2, {"--link"});
  expect_refused(run({"gpipe", "--memory", "4"}), 1,
                 {"got a peak of 8", "expected at most 4", "schedule auto"});
  expect_refused(run({"auto", "--memory", "1", "--virtual-stages", "2"}), 2,
                 {"limit of 1, expected at least 2"});
  expect_refused(run({"nowhere.csv"}), 1, {"nowhere.csv"});
  place.write("bad.csv", "0F0,0B0\n1F0,1Q0\n");
  expect_refused(run({"bad.csv"}), 1, {"bad.csv", "line 2", "1Q0"});
  place.write("stuck.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  expect_refused(run({"stuck.csv"}), 1, {"deadlock", "rank 0 waits at its action 1, 0B0"});
  place.write("good.csv", "0F0,0B0\n1F0,1B0\n");
  expect_refused(run({"good.csv", "--ranks", "3"}), 1, {"--ranks 3, expected 2"});
  expect_refused(run({"good.csv", "--micro-batches", "2"}), 1, {"--micro-batches 2, expected 1"});
  expect_refused(run({"gpipe", "--csv", "no/such/folder.csv"}), 1, {"no/such/folder.csv"});
}

}  // namespace
}  // namespace athanor::tests::schedule_command_test
