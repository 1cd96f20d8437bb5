#include "athanor/verify/verify.h"

#include <gtest/gtest.h>

#include <cmath>

namespace athanor::tests::verify_test {
namespace {

VerifyRun small_run() {
  return {.losses = {2.0, 1.0},
          .grad_norms = {0.5, 0.25},
          .gradients = {{"gradient.w", {3.0f, 4.0f}}, {"gradient.key_bias", {0.0f, 1e-9f}}},
          .weights = {{"model.w", {1.0f, 2.0f}}, {"model.key_bias", {0.1f, 0.2f}}},
          .state = {{"adam.m.w", {0.3f, 0.4f}}}};
}

TEST(VerifyCompare, EqualRunsAreBitwiseEqual) {
  const LayoutDifference found = compare(small_run(), small_run());
  EXPECT_TRUE(found.bitwise);
  EXPECT_EQ(found.worst(), 0.0);
}

TEST(VerifyCompare, NamesTheLargestDifferenceOfEachKind) {
  VerifyRun other = small_run();
  other.losses[1] = 1.01;
  other.grad_norms[0] = 0.51;
  other.gradients["gradient.w"][1] = 4.5f;
  other.weights["model.w"][0] = 2.0f;
  const LayoutDifference found = compare(other, small_run());
  EXPECT_FALSE(found.bitwise);
  EXPECT_NEAR(found.loss.value, 0.01, 1e-12);
  EXPECT_EQ(found.loss.where, "step 2");
  EXPECT_NEAR(found.grad_norm.value, 0.02, 1e-12);
  EXPECT_NEAR(found.gradient.value, 0.1, 1e-12);
  EXPECT_EQ(found.gradient.where, "w");
  EXPECT_NEAR(found.weight.value, 1.0 / std::sqrt(5.0), 1e-12);
}

TEST(VerifyCompare, WhatIsZeroButForRoundingIsNoDifferenceButNotBitwise) {
  VerifyRun other = small_run();
  other.gradients["gradient.key_bias"][1] = -1e-9f;
  other.weights["model.key_bias"][1] = 0.3f;
  const LayoutDifference found = compare(other, small_run());
  EXPECT_EQ(found.worst(), 0.0);
  EXPECT_FALSE(found.bitwise);
}

TEST(VerifyCompare, OptimizerStateAndNanCount) {
  VerifyRun other = small_run();
  other.state["adam.m.w"][0] = 0.31f;
  EXPECT_FALSE(compare(other, small_run()).bitwise);
  other = small_run();
  other.losses[0] = std::nan("");
  EXPECT_EQ(compare(other, small_run()).worst(), HUGE_VAL);
}

// One choice of step 2 went to the third expert in place of the first.
TEST(VerifyCompare, RoutingFlipsAreCounted) {
  const auto with_counts = [](const std::vector<int64_t>& second_step) {
    VerifyRun run = small_run();
    run.experts.resize(2);
    run.experts[0].chosen = {{3, 5, 0}};
    run.experts[1].chosen = {second_step};
    return run;
  };
  EXPECT_EQ(compare(with_counts({4, 4, 0}), with_counts({4, 4, 0})).routing_flips, 0);
  EXPECT_EQ(compare(with_counts({3, 4, 1}), with_counts({4, 4, 0})).routing_flips, 1);
  EXPECT_EQ(compare(with_counts({0, 0, 8}), with_counts({4, 4, 0})).routing_flips, 8);
}

}  // namespace
}  // namespace athanor::tests::verify_test
