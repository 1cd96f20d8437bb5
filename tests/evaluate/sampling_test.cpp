#include "athanor/evaluate/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "athanor/base/error.h"

namespace athanor::tests::sampling_test {
namespace {

const std::vector<float> kLogits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};

SamplingOptions with(double temperature, int64_t top_k, double top_p) {
  return {.temperature = temperature, .top_k = top_k, .top_p = top_p};
}

// The share of each token over evenly spaced uniform numbers.
std::vector<double> shares(const SamplingOptions& options) {
  std::vector<double> counts(kLogits.size());
  for (int i = 0; i < 1000; ++i)
    counts[static_cast<size_t>(sample_token(kLogits, options, (i + 0.5) / 1000.0))] += 1e-3;
  return counts;
}

TEST(Sampling, GreedyTakesTheLargestAndTheFirstOfEquals) {
  EXPECT_EQ(sample_token(kLogits, with(0, 0, 1), 0.9), 1);
  const std::vector<float> equal = {1.0f, 2.0f, 2.0f};
  EXPECT_EQ(sample_token(equal, with(0, 0, 1), 0.9), 1);
}

TEST(Sampling, FollowsTheProbabilities) {
  const auto got = shares(with(1, 0, 1));
  const double expected[] = {0.1, 0.4, 0.2, 0.3};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], expected[i], 2e-3);
}

TEST(Sampling, TemperatureSharpens) {
  const auto got = shares(with(0.5, 0, 1));
  EXPECT_NEAR(got[1], 0.16 / 0.30, 2e-3);
  EXPECT_NEAR(got[0], 0.01 / 0.30, 2e-3);
}

TEST(Sampling, TopKKeepsTheKLikeliest) {
  const auto got = shares(with(1, 2, 1));
  EXPECT_NEAR(got[1], 4.0 / 7.0, 2e-3);
  EXPECT_NEAR(got[3], 3.0 / 7.0, 2e-3);
  EXPECT_EQ(got[0] + got[2], 0.0);
}

TEST(Sampling, TopPKeepsTheSmallestSetThatReachesIt) {
  const auto got = shares(with(1, 0, 0.65));  // 0.4 + 0.3
  EXPECT_EQ(got[0] + got[2], 0.0);
  EXPECT_NEAR(got[1], 4.0 / 7.0, 2e-3);
}

TEST(Sampling, IgnoresLogitsThatAreNotFinite) {
  const std::vector<float> logits = {std::numeric_limits<float>::quiet_NaN(), 1.0f,
                                     -std::numeric_limits<float>::infinity()};
  EXPECT_EQ(sample_token(logits, with(1, 0, 1), 0.99), 1);
}

TEST(Sampling, RefusesOptionsOutOfRange) {
  EXPECT_THROW(sample_token(kLogits, with(-1, 0, 1), 0), Error);
  EXPECT_THROW(sample_token(kLogits, with(1, -1, 1), 0), Error);
  EXPECT_THROW(sample_token(kLogits, with(1, 0, 0), 0), Error);
  EXPECT_THROW(sample_token(kLogits, with(1, 0, 1.5), 0), Error);
  EXPECT_THROW(sample_token(std::vector<float>{}, with(1, 0, 1), 0), Error);
}

}  // namespace
}  // namespace athanor::tests::sampling_test
