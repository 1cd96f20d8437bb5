// Schedules as values: every known one is valid for every shape, and its bubble and memory are what is said
// of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "athanor/base/error.h"
#include "athanor/pipeline/generators.h"
#include "athanor/pipeline/validate.h"

namespace athanor::tests::schedule_test {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> texts(const std::vector<Action>& actions) {
  std::vector<std::string> all;
  for (const Action& action : actions) all.push_back(str(action));
  return all;
}

std::vector<int> legal_virtual_stages(const std::string& name) {
  if (name == "interleaved") return {2, 3, 4};
  if (name == "bfs") return {1, 2, 3};
  return {default_virtual_stages(name)};
}

void for_each_shape(const std::function<void(const std::string&, const ScheduleShape&)>& body) {
  for (const std::string& name : schedule_names())
    for (int p = 1; p <= 7; ++p)
      for (const int m : {1, 2, 3, 4, 5, 7, 8, 12, 14, 15, 28})
        for (const int v : legal_virtual_stages(name)) {
          SCOPED_TRACE(name + ", ranks " + std::to_string(p) + ", micro-batches " + std::to_string(m) +
                       ", stages of a rank " + std::to_string(v));
          body(name, {p, m, v});
        }
}

const std::vector<StageCost> kTimes = {{1, 1, 1, 1}, {2, 2, 1, 1}, {3, 3, 2, 1}, {2, 1, 1, 1}, {3, 2, 2, 1},
                                       {1, 2, 3, 1}, {2, 1, 5, 1}, {7, 5, 3, 1}, {4, 0, 4, 1}, {3, 1, 2, 1}};

TEST(Schedules, OneForwardOneBackwardByHand) {
  const Schedule schedule = make_schedule("1f1b", {.ranks = 3, .micro_batches = 4});
  EXPECT_THAT(texts(schedule.ranks[0]), ElementsAre("0F0", "0F1", "0F2", "0B0", "0F3", "0B1", "0B2", "0B3"));
  EXPECT_THAT(texts(schedule.ranks[2]), ElementsAre("2F0", "2B0", "2F1", "2B1", "2F2", "2B2", "2F3", "2B3"));
}

TEST(Schedules, InterleavedByHand) {
  const Schedule schedule =
      make_schedule("interleaved", {.ranks = 2, .micro_batches = 2, .virtual_stages = 2});
  EXPECT_THAT(texts(schedule.ranks[0]), ElementsAre("0F0", "0F1", "2F0", "2F1", "2B0", "2B1", "0B0", "0B1"));
  EXPECT_THAT(texts(schedule.ranks[1]), ElementsAre("1F0", "1F1", "3F0", "3B0", "3F1", "3B1", "1B0", "1B1"));
}

TEST(Schedules, ZeroBubbleByHand) {
  const Schedule schedule = make_schedule("zb-h1", {.ranks = 2, .micro_batches = 3});
  EXPECT_THAT(texts(schedule.ranks[0]),
              ElementsAre("0F0", "0F1", "0I0", "0W0", "0F2", "0I1", "0W1", "0I2", "0W2"));
  EXPECT_THAT(texts(schedule.ranks[1]),
              ElementsAre("1F0", "1I0", "1F1", "1I1", "1W0", "1F2", "1I2", "1W1", "1W2"));
}

TEST(Schedules, Placements) {
  EXPECT_THAT(loop_placement(3, 2), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(v_placement(3, 2), ElementsAre(0, 1, 2, 2, 1, 0));
  EXPECT_THAT(v_placement(2, 3), ElementsAre(0, 1, 1, 0, 0, 1));
  EXPECT_THAT(block_placement(3, 2), ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST(Schedules, AllAreValidForAllShapes) {
  for_each_shape([](const std::string& name, const ScheduleShape& shape) {
    const Schedule schedule = make_schedule(name, shape);
    EXPECT_EQ(schedule.name, name);
    EXPECT_EQ(schedule.num_ranks(), shape.ranks);
    EXPECT_EQ(schedule.num_stages(), shape.ranks * shape.virtual_stages);
    EXPECT_EQ(schedule.micro_batches, shape.micro_batches);
    ASSERT_NO_THROW(validate(schedule));
  });
}

TEST(Schedules, TheSimulatedBubbleIsTheClosedForm) {
  std::map<std::string, int> compared;
  for_each_shape([&](const std::string& name, const ScheduleShape& shape) {
    const Schedule schedule = make_schedule(name, shape);
    for (const StageCost& t : kTimes) {
      const auto expected = closed_form_bubble(name, shape, t);
      if (!expected) continue;
      const Simulation run = simulate(schedule, uniform_costs(schedule, t));
      EXPECT_EQ(run.bubble, *expected) << "F " << t.forward << " I " << t.input << " W " << t.weight;
      EXPECT_NEAR(run.bubble_share, *expected / run.makespan, 1e-12);
      ++compared[name];
    }
  });
  // The forms hold for enough shapes to mean something.
  for (const std::string& name : schedule_names()) EXPECT_GT(compared[name], 30) << name;
  // Of those that are always exact, none was left out.
  for (const char* name : {"gpipe", "1f1b"})
    EXPECT_EQ(compared[name], 7 * 11 * static_cast<int>(kTimes.size()));
}

TEST(Schedules, ZeroBubbleVHasNoneWithinARank) {
  for (int p = 1; p <= 8; ++p) {
    const Schedule schedule = make_schedule("zb-v", {p, 2 * p, 0});
    for (const double waits : simulate(schedule, uniform_costs(schedule, {})).waits)
      EXPECT_EQ(waits, 0.0) << p;
  }
}

TEST(Schedules, DualPipeVIsWithinDeepSeeksForm) {
  for (int p = 2; p <= 8; ++p)
    for (const StageCost& t : kTimes) {
      if (!dualpipe_v_bubble(p, 2 * p, t) || t.weight > std::min(t.forward, t.input)) continue;
      const Schedule schedule = make_schedule("dualpipe-v", {p, 2 * p, 0});
      const double backward = t.input + t.weight;
      EXPECT_LE(simulate(schedule, uniform_costs(schedule, t)).bubble,
                (p - 1) * (t.forward + backward + backward - 3 * t.weight));
    }
}

TEST(Schedules, PeakActivations) {
  for_each_shape([](const std::string& name, const ScheduleShape& shape) {
    const int p = shape.ranks, m = shape.micro_batches, v = shape.virtual_stages;
    const Schedule schedule = make_schedule(name, shape);
    const auto peaks = simulate(schedule, uniform_costs(schedule, {})).peak_activations;
    for (int r = 0; r < p; ++r) {
      const auto expected = [&]() -> std::optional<int> {
        if (name == "gpipe" || name == "bfs") return m * v;
        if (name == "1f1b") return std::min(m, p - r);
        if (name == "zb-h1") return std::min(m, p);
        if (name == "interleaved" && m % p == 0) return std::min(m * v, (v - 1) * p + 2 * (p - 1 - r) + 1);
        if (name == "zb-v" && m >= 2 * p - 1) return 2 * p;
        if (name == "dualpipe-v" && m >= 2 * p) return 2 * p + 1;
        return std::nullopt;
      }();
      if (expected) {
        EXPECT_EQ(peaks[static_cast<size_t>(r)], *expected);
      }
      EXPECT_LE(peaks[static_cast<size_t>(r)], m * v);
    }
  });
}

std::string refusal_of_name(const std::string& name, const ScheduleShape& shape) {
  try {
    make_schedule(name, shape);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " " + error.hint();
  }
  return "accepted";
}

TEST(Schedules, RefusalsNameWhatWasGot) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal_of_name("1f1", {2, 2}), HasSubstr("did you mean '1f1b'"));
  EXPECT_THAT(refusal_of_name("\x1b[31m", {2, 2}), HasSubstr("?[31m"));
  EXPECT_THAT(refusal_of_name("1f1b", {0, 2}), HasSubstr("got 0 ranks"));
  EXPECT_THAT(refusal_of_name("1f1b", {2, 0}), HasSubstr("got 0 micro-batches"));
  EXPECT_THAT(refusal_of_name("1f1b", {2, 2, -1}), HasSubstr("got -1 stages of a rank"));
  EXPECT_THAT(refusal_of_name("zb-v", {2, 2, 3}), HasSubstr("got 3 stages of a rank, expected 2"));
  EXPECT_THAT(refusal_of_name("1f1b", {2, 2, 2}), HasSubstr("got 2 stages of a rank, expected 1"));
  EXPECT_THAT(refusal_of_name("interleaved", {2, 2, 1}), HasSubstr("expected at least 2"));
  EXPECT_THAT(refusal_of_name("gpipe", {1 << 20, 1 << 20}), HasSubstr("expected a product of at most"));
  EXPECT_THAT(refusal_of_name("interleaved", {2147483647, 1, 2147483647}),
              HasSubstr("expected a product of at most"));
  EXPECT_THAT(refusal_of_name("dualpipe-v", {1 << 20, 1}), HasSubstr("expected a product of at most"));
}

}  // namespace
}  // namespace athanor::tests::schedule_test
