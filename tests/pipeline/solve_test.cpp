// The solver: within its limit, never longer than 1F1B or ZB-H1, and everything random shapes and times can
// ask of any schedule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "athanor/base/error.h"
#include "athanor/pipeline/solve.h"
#include "athanor/pipeline/validate.h"
#include "support/tiers.h"

namespace athanor::tests::solve_test {
namespace {

double peak_of(const Simulation& run) {
  return *std::max_element(run.peak_activations.begin(), run.peak_activations.end());
}

SolveRequest request_of(int p, int m, int v, const StageCost& cost, double limit) {
  const Costs costs{std::vector<StageCost>(static_cast<size_t>(p * v), cost), 0.0};
  return {.ranks = p, .micro_batches = m, .virtual_stages = v, .costs = costs, .memory_limit = limit};
}

TEST(Solve, NeverWorseThanOneFOneBAndZbH1AtEqualMemory) {
  for (const StageCost& cost :
       {StageCost{1, 1, 1, 1}, StageCost{2, 1, 3, 1}, StageCost{1, 3, 1, 1}, StageCost{5, 7, 4, 2}})
    for (int p = 1; p <= 6; ++p)
      for (const int m : {1, 2, p, 2 * p, 3 * p + 1})
        for (const char* name : {"1f1b", "zb-h1"}) {
          const Schedule known = make_schedule(name, {p, m, 1});
          const Simulation run = simulate(known, uniform_costs(known, cost));
          const Solution solved = solve(request_of(p, m, 1, cost, peak_of(run)));
          EXPECT_LE(solved.run.makespan, run.makespan) << name << " p " << p << " m " << m;
          EXPECT_LE(peak_of(solved.run), peak_of(run));
          EXPECT_EQ(solved.schedule.name, "auto");
        }
}

// The same for a model cut twice as fine: 1F1B then runs two stages as one.
TEST(Solve, NeverWorseOnFinerStages) {
  for (const double weight : {1.0, 2.0})
    for (int p = 2; p <= 5; ++p) {
      const StageCost half{1, 1, weight, 1}, whole{2, 2, 2 * weight, 2};
      const Schedule known = make_schedule("zb-h1", {p, 2 * p, 1});
      const Simulation run = simulate(known, uniform_costs(known, whole));
      const Solution solved = solve(request_of(p, 2 * p, 2, half, peak_of(run)));
      EXPECT_LE(solved.run.makespan, run.makespan);
      EXPECT_LE(peak_of(solved.run), peak_of(run));
    }
}

TEST(Solve, FillsTheGapsThatTheseTimesLeave) {
  // With links that take time, ZB-H1's fixed places for weight gradients are not the best, in its own memory.
  SolveRequest request = request_of(4, 12, 1, {1, 1, 3, 1}, 4);
  request.costs.link = 0.5;
  EXPECT_LT(solve(request).run.makespan,
            simulate(make_schedule("zb-h1", {4, 12, 1}), request.costs).makespan);
  // With memory for twice as many micro-batches (ZB-H2) nothing is left but the ramp of the first forwards.
  EXPECT_EQ(solve(request_of(4, 12, 1, {10, 13, 7, 1}, 8)).run.bubble, 30.0);
}

TEST(Solve, UnevenStages) {
  SolveRequest request = request_of(3, 9, 1, {}, 3);
  request.costs = {{{2, 2, 2, 1}, {1, 1, 1, 1}, {2, 3, 2, 1}}, 0.5};
  const Solution solved = solve(request);
  for (const char* name : {"1f1b", "zb-h1"})
    EXPECT_LE(solved.run.makespan, simulate(make_schedule(name, {3, 9, 1}), request.costs).makespan);
  EXPECT_GE(solved.run.makespan, 9 * 7.0);  // the work of the busiest rank
}

TEST(Solve, IsDeterministic) {
  EXPECT_EQ(solve(request_of(3, 7, 2, {3, 2, 2, 1}, 7)).schedule,
            solve(request_of(3, 7, 2, {3, 2, 2, 1}, 7)).schedule);
}

TEST(Solve, Refusals) {
  const auto refusal = [](const SolveRequest& request) -> std::string {
    try {
      solve(request);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal(request_of(2, 4, 2, {}, 1)), HasSubstr("got a memory limit of 1, expected at least 2"));
  EXPECT_THAT(refusal(request_of(2, 0, 1, {}, 1)), HasSubstr("got 0 micro-batches"));
  EXPECT_THAT(refusal(request_of(2, 4, 1, {-1, 1, 1, 1}, 1)), HasSubstr("negative"));
  EXPECT_THAT(refusal(request_of(2, 4, 1, {1, 1, 1, 1}, -3)), HasSubstr("negative"));
  SolveRequest few = request_of(2, 4, 1, {}, 4);
  few.costs.stages.pop_back();
  EXPECT_THAT(refusal(few), HasSubstr("got the times of 1 stages, expected 2"));
  EXPECT_EQ(refusal(request_of(2, 4, 2, {}, 2)), "accepted");  // the least that can work
}

// 1000 cases: any shape, any times, some of them nothing, some far apart.
TEST(Schedules, RandomOnesAreValidAndFreeOfDeadlocks) {
  LEAVE_OUT_UNDER(address_sanitizer, "a thousand random schedules take minutes");
  std::mt19937 dice(20261121);
  const auto roll = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(dice); };
  const auto time = [&] {
    return roll(0, 9) == 0 ? 0.0 : roll(0, 4) == 0 ? roll(1, 1000) / 7.0 : roll(1, 9);
  };
  for (int i = 0; i < 1000; ++i) {
    const int p = roll(1, 8), m = roll(1, 20);
    const std::string& name = schedule_names()[static_cast<size_t>(roll(0, 6))];
    const int v = name == "interleaved" ? roll(2, 4) : name == "bfs" ? roll(1, 4) : 0;
    SCOPED_TRACE(name + " p " + std::to_string(p) + " m " + std::to_string(m) + " v " + std::to_string(v));
    const Schedule schedule = make_schedule(name, {p, m, v});
    ASSERT_NO_THROW(validate(schedule));
    Costs costs;
    for (int s = 0; s < schedule.num_stages(); ++s)
      costs.stages.push_back({time(), time(), time(), static_cast<double>(roll(1, 3))});
    costs.link = time();
    const Simulation run = simulate(schedule, costs);
    double work = 0.0;
    for (const double busy : run.busy) work = std::max(work, busy);
    EXPECT_GE(run.makespan, work);

    SolveRequest request{p, m, schedule.num_stages() / p, costs, 0.0};
    if (roll(0, 3) > 0) request.memory_limit = peak_of(run);
    const Solution solved = solve(request);
    ASSERT_NO_THROW(validate(solved.schedule));
    EXPECT_LE(solved.run.makespan, run.makespan * (1 + 1e-12));
    if (request.memory_limit > 0.0) {
      EXPECT_LE(peak_of(solved.run), request.memory_limit);
    }
    EXPECT_EQ(simulate(solved.schedule, costs).makespan, solved.run.makespan);

    if (schedule.num_stages() != p) continue;
    const Simulation known = simulate(make_schedule(i % 2 == 0 ? "1f1b" : "zb-h1", {p, m, 1}), costs);
    request.memory_limit = peak_of(known);
    const Solution equal = solve(request);
    EXPECT_LE(equal.run.makespan, known.makespan * (1 + 1e-12));
    EXPECT_LE(peak_of(equal.run), peak_of(known));
  }
}

// At the least memory there is, everything goes on, one micro-batch after the other if need be.
TEST(Schedules, TheLeastMemoryIsEnough) {
  for (int p = 1; p <= 5; ++p)
    for (int v = 1; v <= 4; ++v) {
      const SolveRequest request = request_of(p, 6, v, {1, 2, 1, 1}, v);
      for (const auto& placement : {loop_placement(p, v), v_placement(p, v), block_placement(p, v)})
        for (const bool forward_first : {true, false}) {
          const auto schedule = list_schedule(
              request, {.rank_of_stage = placement, .forward_first = forward_first, .memory_limit = 1.0 * v});
          ASSERT_TRUE(schedule.has_value()) << p << " " << v;
          ASSERT_NO_THROW(validate(*schedule));
          EXPECT_LE(peak_of(simulate(*schedule, request.costs)), v);
        }
    }
}

}  // namespace
}  // namespace athanor::tests::solve_test
