// What a schedule must not be: each fault is named with its rank and action.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/pipeline/simulate.h"
#include "athanor/pipeline/validate.h"

namespace athanor::tests::validate_test {
namespace {

using ::testing::HasSubstr;

std::string refusal_of_schedule(const Schedule& schedule) {
  try {
    validate(schedule);
  } catch (const Error& error) {
    return error.what();
  }
  return "valid";
}

Action action(const std::string& text) {  // of one digit each
  return {static_cast<Act>(text[1]), text[0] - '0', text[2] - '0'};
}

Schedule of(std::vector<int> placement, int micro_batches,
            const std::vector<std::vector<std::string>>& ranks) {
  Schedule schedule{"test", std::move(placement), micro_batches, {}};
  for (const auto& texts : ranks) {
    auto& actions = schedule.ranks.emplace_back();
    for (const auto& text : texts) actions.push_back(action(text));
  }
  return schedule;
}

TEST(Validate, AcceptsWhatIsWhole) {
  EXPECT_EQ(refusal_of_schedule(of({0}, 1, {{"0F0", "0B0"}})), "valid");
  EXPECT_EQ(refusal_of_schedule(of({0, 1}, 1, {{"0F0", "0I0", "0W0"}, {"1F0", "1B0"}})), "valid");
  // B and I, W may be mixed on a stage as long as weight gradients keep their order.
  EXPECT_EQ(refusal_of_schedule(of({0}, 3, {{"0F0", "0F1", "0F2", "0B0", "0I1", "0W1", "0B2"}})), "valid");
}

TEST(Validate, NamesTheFault) {
  EXPECT_THAT(refusal_of_schedule(of({}, 1, {})), HasSubstr("no ranks"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 0, {{}})), HasSubstr("got 0 micro-batches"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 1, {{"0F0", "0B0"}, {}})), HasSubstr("got 1 stages on 2 ranks"));
  EXPECT_THAT(refusal_of_schedule(of({0, 0}, 1, {{"0F0", "0B0"}, {}})), HasSubstr("rank 1 has no stage"));
  EXPECT_THAT(refusal_of_schedule(of({0, 2}, 1, {{"0F0", "0B0"}, {}})), HasSubstr("stage 1: got rank 2"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 1, {{"0F0", "0F0", "0B0"}})),
              HasSubstr("rank 0: action 1, 0F0: it was done before"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 1, {{"0F0", "0B0", "0B0"}})),
              HasSubstr("action 2, 0B0: it was done before"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 1, {{"0F0", "0B0", "0W0"}})),
              HasSubstr("0W0: its weight gradient was part of a B"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 1, {{"0F0", "0I0", "0W0", "0W0"}})),
              HasSubstr("action 3, 0W0: it was done before"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 1, {{"0B0", "0F0"}})),
              HasSubstr("0B0: its F has not been done yet"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 1, {{"0F0", "0W0", "0I0"}})),
              HasSubstr("0W0: its I has not been done yet"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 2, {{"0F1", "0F0", "0B0", "0B1"}})),
              HasSubstr("got micro-batch 1, expected 0"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 2, {{"0F0", "0F1", "0I0", "0I1", "0W1", "0W0"}})),
              HasSubstr("0W1: got micro-batch 1, expected 0: on a stage W go in the order"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 2, {{"0F0", "0F1", "0I0", "0B1", "0W0"}})),
              HasSubstr("0B1: the W of micro-batch 0 is still due"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 1, {{"1F0"}})), HasSubstr("got stage 1, expected one of 1"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 1, {{"0F5"}})), HasSubstr("got micro-batch 5, expected one of 1"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 1, {{"0X0"}})), HasSubstr("0X0: expected F, B, I or W"));
  EXPECT_THAT(refusal_of_schedule(of({0, 1}, 1, {{"0F0", "1F0"}, {}})),
              HasSubstr("action 1, 1F0: stage 1 is on rank 1"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 1, {{"0F0"}})),
              HasSubstr("rank 0: the B (or I) of stage 0, micro-batch 0 is missing"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 2, {{"0F0", "0B0"}})),
              HasSubstr("the F of stage 0, micro-batch 1 is missing"));
  EXPECT_THAT(refusal_of_schedule(of({0}, 1, {{"0F0", "0I0"}})),
              HasSubstr("the W of stage 0, micro-batch 0 is missing"));
}

TEST(Validate, NamesWhoWaitsInADeadlock) {
  // Rank 0 wants the gradient of micro-batch 0 before it lets in micro-batch 1, rank 1 the other way round.
  const Schedule schedule = of({0, 1}, 2, {{"0F0", "0B0", "0F1", "0B1"}, {"1F0", "1F1", "1B0", "1B1"}});
  const std::string reason = refusal_of_schedule(schedule);
  EXPECT_THAT(reason, HasSubstr("deadlock: rank 0 waits at its action 1, 0B0, for stage 1 on rank 1; "
                                "rank 1 waits at its action 1, 1F1, for stage 0 on rank 0"));
  EXPECT_THROW(simulate(schedule, uniform_costs(schedule, {})), Error);
}

TEST(Validate, FindsEveryLostDoubledAndSwappedAction) {
  for (const std::string& name : schedule_names()) {
    const Schedule whole = make_schedule(name, {.ranks = 3, .micro_batches = 4});
    for (size_t rank = 0; rank < 3; ++rank)
      for (size_t k = 0; k < whole.ranks[rank].size(); ++k) {
        Schedule lost = whole, doubled = whole, moved = whole;
        lost.ranks[rank].erase(lost.ranks[rank].begin() + static_cast<int64_t>(k));
        EXPECT_NE(refusal_of_schedule(lost), "valid") << name << " without " << str(whole.ranks[rank][k]);
        doubled.ranks[rank].push_back(whole.ranks[rank][k]);
        EXPECT_NE(refusal_of_schedule(doubled), "valid") << name << " with two " << str(whole.ranks[rank][k]);
        auto& actions = moved.ranks[(rank + 1) % 3];
        actions.insert(actions.begin(), whole.ranks[rank][k]);
        EXPECT_NE(refusal_of_schedule(moved), "valid")
            << name << " with a stranger " << str(whole.ranks[rank][k]);
      }
  }
}

TEST(Simulate, TimesAreAddedUpByHand) {
  // Two ranks, one micro-batch, links of 3: F 0-2, F 5-9 (stage 1 is slower), B 9-15, B 18-21.
  const Schedule schedule = make_schedule("1f1b", {.ranks = 2, .micro_batches = 1});
  const Costs costs{{{2, 1, 2, 10}, {4, 5, 1, 7}}, 3.0};
  const Simulation run = simulate(schedule, costs);
  EXPECT_EQ(run.timeline[1][0].start, 5.0);
  EXPECT_EQ(run.timeline[1][1].end, 15.0);
  EXPECT_EQ(run.timeline[0][1].start, 18.0);
  EXPECT_EQ(run.makespan, 21.0);
  EXPECT_EQ(run.busy[0], 5.0);
  EXPECT_EQ(run.waits[0], 16.0);
  EXPECT_EQ(run.bubble, 11.0);
  EXPECT_NEAR(run.bubble_share, 1.0 - 15.0 / 42.0, 1e-12);
  EXPECT_EQ(run.peak_activations[0], 10.0);
  EXPECT_EQ(run.peak_activations[1], 7.0);
  EXPECT_THROW(simulate(schedule, {{{}}, 0.0}), Error);  // the costs of one stage for two
}

TEST(Simulate, StagesOfOneRankHaveNoLink) {
  Schedule schedule = make_schedule("zb-v", {.ranks = 1, .micro_batches = 2});
  EXPECT_EQ(simulate(schedule, uniform_costs(schedule, {}, 100.0)).makespan, 12.0);
}

}  // namespace
}  // namespace athanor::tests::validate_test
