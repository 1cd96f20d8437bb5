// What must hold of a trial: each thing that does not is said.
#include "athanor/chaos/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace athanor::tests::judge_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Expectation kKill{.most_redone_steps = 1, .survivors = true}, kStop{.exit_code = 75, .goes_on = true};

std::vector<std::string> judged(const std::function<void(Seen&)>& change,
                                const Expectation& expected = kKill) {
  Seen seen{.at_step = 40, .best_step = 100, .last_step = 100};
  seen.exit_code = expected.exit_code;
  seen.ending = "exited with code 1";
  seen.compared = true;
  seen.lost_steps = 0;
  if (expected.goes_on) seen.second_exit_code = 0;
  if (expected.survivors) seen.survivors_kept_pids = true;
  change(seen);
  return judge(seen, expected);
}

TEST(Judge, AllIsWell) {
  EXPECT_THAT(judged([](Seen&) {}), IsEmpty());
  EXPECT_THAT(judged([](Seen&) {}, kStop), IsEmpty());
  EXPECT_THAT(judged([](Seen& seen) { seen.survivors_kept_pids.reset(); }), IsEmpty());
}

TEST(Judge, EachThingThatDoesNotHold) {
  EXPECT_THAT(judged([](Seen& seen) {
                seen.exit_code = 1;
                seen.last_words = "step 3\nathanor: error: rank 1 was killed\nhint\n";
              }),
              ElementsAre("the job exited with code 1, expected exit code 0 (rank 1 was killed)"));
  EXPECT_THAT(judged([](Seen& seen) {
                seen.differences = {"step 4: loss: got 1, expected 2", "ledger: x"};
              }),
              ElementsAre("step 4: loss: got 1, expected 2", "ledger: x"));
  EXPECT_THAT(judged([](Seen& seen) { seen.lost_steps = 1; }), IsEmpty());  // the one in flight
  EXPECT_THAT(judged([](Seen& seen) { seen.lost_steps = 2; }), ElementsAre(HasSubstr("2 steps were lost")));
  EXPECT_THAT(judged([](Seen& seen) { seen.lost_steps = 1; }, kStop),
              ElementsAre(HasSubstr("1 steps were lost")));
  EXPECT_THAT(judged([](Seen& seen) {
                seen.lost_steps.reset();
                seen.best_step = 40;
              }),
              ElementsAre("no step was seen after the fault"));
  EXPECT_THAT(judged([](Seen& seen) { seen.survivors_kept_pids = false; }),
              ElementsAre(HasSubstr("lost its process")));
  EXPECT_THAT(judged([](Seen& seen) { seen.leftovers = {"process 7 (x)"}; }),
              ElementsAre("left behind: process 7 (x)"));
  EXPECT_THAT(judged([](Seen& seen) { seen.missed = {1}; }), ElementsAre(HasSubstr("rank 1 had ended")));
  EXPECT_THAT(judged([](Seen& seen) {
                seen.endless = "the job did not end within 60 s";
                seen.exit_code = -1;
              }),
              ElementsAre("the job did not end within 60 s"));
  EXPECT_THAT(judged([](Seen& seen) { seen.second_exit_code = 1; }, kStop),
              ElementsAre(HasSubstr("the same command again: exit code 1")));
}

TEST(Judge, WhoWasStruckIsNamedInTimeAndNobodyElse) {
  const Expectation named{.named_by = "stopped", .named_within_seconds = 1.0};
  const auto after = [](double seconds) { return [=](Seen& seen) { seen.detect_seconds = seconds; }; };
  EXPECT_THAT(judged(after(0.9), named), IsEmpty());
  EXPECT_THAT(judged(after(1.1), named), ElementsAre("named after 1.100 s, expected at most 1 s"));
  EXPECT_THAT(judged([](Seen&) {}, named), ElementsAre("no event 'stopped' has named it"));
  EXPECT_THAT(judged([](Seen& seen) { seen.at_step = 99; }, named), IsEmpty());
  const auto blamed = [](Seen& seen) { seen.alarms = {"failure of rank 1: was killed"}; };
  EXPECT_THAT(judged(blamed), IsEmpty());
  EXPECT_THAT(judged(blamed, {.no_failure = true}),
              ElementsAre("taken for a failure: failure of rank 1: was killed"));
}

// After the last step nothing is left to do, also if its line was seen only after the fault.
TEST(Judge, AtTheEndOfARun) {
  const auto at_the_end = [](Seen& seen) {
    seen.at_step = 100;
    seen.lost_steps.reset();
  };
  EXPECT_THAT(judged(at_the_end), IsEmpty());
  EXPECT_THAT(judged([](Seen& seen) {
                seen.at_step = 99;
                seen.lost_steps.reset();
              }),
              IsEmpty());
  const auto ended = [&](Seen& seen) {
    at_the_end(seen);
    seen.exit_code = 0;
    seen.second_exit_code.reset();
  };
  EXPECT_THAT(judged(ended, kStop), IsEmpty());
  EXPECT_THAT(judged(
                  [](Seen& seen) {
                    seen.exit_code = 0;
                    seen.second_exit_code.reset();
                  },
                  kStop),
              ElementsAre(HasSubstr("expected exit code 75")));
}

}  // namespace
}  // namespace athanor::tests::judge_test
