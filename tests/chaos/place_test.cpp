// The instant of a trial: a time of the undisturbed run, placed by the step that it falls into.
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/chaos/trial.h"

namespace athanor::tests::place_test {
namespace {

Undisturbed with_times(const std::vector<int64_t>& ms) {
  Undisturbed undisturbed;
  for (size_t i = 0; i < ms.size(); ++i)
    undisturbed.steps.push_back({.step = static_cast<int64_t>(i) + 1, .at_ns = ms[i] * 1'000'000});
  return undisturbed;
}

TEST(Place, ByTheStepThatTheInstantFallsInto) {
  const Undisturbed run = with_times({1000, 1010, 1050, 1060, 1100});
  EXPECT_DOUBLE_EQ(run.training_seconds(), 0.1);
  EXPECT_DOUBLE_EQ(run.median_step_seconds(), 0.04);
  EXPECT_EQ(run.last_step(), 5);
  const auto expect = [&](double instant, int64_t step, int64_t offset_ms) {
    const auto place = run.place_of(instant);
    EXPECT_EQ(place.step, step) << instant;
    EXPECT_NEAR(static_cast<double>(place.offset_ns), static_cast<double>(offset_ms) * 1e6, 20.0) << instant;
    EXPECT_NEAR(place.at_seconds, 0.1 * instant, 1e-8);
  };
  expect(0.0, 1, 0);
  expect(0.05, 1, 5);
  expect(0.1000001, 2, 0);
  expect(0.3, 2, 20);
  expect(0.5500001, 3, 5);
  expect(0.99, 4, 39);
  EXPECT_LT(run.place_of(0.9999999999).step, 5);
}

TEST(Place, LinesThatWereSeenTogether) {
  const Undisturbed run = with_times({1000, 1010, 1010, 1020});
  EXPECT_EQ(run.place_of(0.75).step, 3);
}

TEST(Place, ARunOfOneStepHasNoMedian) {
  EXPECT_THROW(with_times({1000}).median_step_seconds(), Error);
}

}  // namespace
}  // namespace athanor::tests::place_test
