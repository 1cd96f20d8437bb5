#include "athanor/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "athanor/base/error.h"

namespace athanor::tests::sampler_test {
namespace {

std::vector<double> random_weights() {
  auto weights = *rc::gen::nonEmpty(rc::gen::container<std::vector<double>>(
      rc::gen::map(rc::gen::inRange(0, 1000), [](int weight) { return weight / 1000.0; })));
  weights.push_back(0.125);  // at least one above 0
  return weights;
}

RC_GTEST_PROP(MixtureTest, NumbersOfAChannelComeInOrderWithoutGaps, ()) {
  const Mixture mixture(random_weights());
  std::vector<int64_t> next(static_cast<size_t>(mixture.num_channels()), 0);
  for (int64_t n = 0; n < 500; ++n) {
    for (int c = 0; c < mixture.num_channels(); ++c)
      RC_ASSERT(mixture.count(c, n) == next[static_cast<size_t>(c)]);
    const Draw draw = mixture.draw(n);
    RC_ASSERT(draw.number == next[static_cast<size_t>(draw.channel)]++);
  }
}

RC_GTEST_PROP(MixtureTest, EveryChannelHasItsShareAtEveryPoint, ()) {
  const std::vector<double> weights = random_weights();
  const Mixture mixture(weights);
  double total = 0;
  for (const double weight : weights) total += weight;
  const auto n = *rc::gen::inRange<int64_t>(0, int64_t{1} << 40);
  int64_t sum = 0;
  for (size_t c = 0; c < weights.size(); ++c) {
    const int64_t count = mixture.count(static_cast<int>(c), n);
    const double expected = static_cast<double>(n) * weights[c] / total;
    RC_ASSERT(std::abs(static_cast<double>(count) - expected) < 2.0 + 1e-3);  // and what a double rounds
    if (weights[c] == 0) RC_ASSERT(count == 0);
    sum += count;
  }
  RC_ASSERT(sum == n);
}

TEST(MixtureTest, DrawsFarOutAgreeWithTheCounts) {
  const Mixture mixture({0.7, 1e-9, 0.2, 0.0999});
  for (const int64_t n :
       {int64_t{0}, int64_t{1} << 32, (int64_t{1} << 53) + 1, std::numeric_limits<int64_t>::max() - 1}) {
    const Draw draw = mixture.draw(n);
    EXPECT_EQ(draw.number, mixture.count(draw.channel, n));
    EXPECT_EQ(draw.number + 1, mixture.count(draw.channel, n + 1));
  }
}

TEST(MixtureTest, OnlyRatiosCount) {
  const Mixture small({1e-300, 3e-300}), large({1e308, 1.5e308, 1.5e308}), single({5});
  EXPECT_EQ(small.count(0, 4000), 1000);
  EXPECT_EQ(large.count(0, 4000), 1000);
  EXPECT_EQ(single.draw(123456).number, 123456);
}

TEST(MixtureTest, NoWeightMeansNoDraw) {
  const Mixture mixture({3, 1, 0});
  for (const auto& [channel, count] : {std::pair{0, 300}, {1, 100}, {2, 0}})
    EXPECT_EQ(mixture.count(channel, 400), count);
}

TEST(MixtureTest, BadWeightsAreRefused) {
  for (const double bad : {-0.1, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THROW(Mixture({1.0, bad}), ConfigError);
  EXPECT_THROW(Mixture({0.0, 0.0}), ConfigError);
  EXPECT_THROW(Mixture({}), ConfigError);
  EXPECT_THROW(Mixture({1.0}).draw(-1), Error);
}

// Each sequence exactly once per epoch, and the epochs one after the other, as seen in the order of the
// samples.
RC_GTEST_PROP(SamplerTest, ExactlyOncePerEpochOfItsChannel, ()) {
  std::vector<Sampler::ChannelShape> channels;
  std::vector<double> weights;
  const int num_channels = *rc::gen::inRange(1, 5);
  for (int c = 0; c < num_channels; ++c) {
    weights.push_back(*rc::gen::inRange(1, 100) / 10.0);
    channels.push_back({"c" + std::to_string(c), weights.back(), *rc::gen::inRange<int64_t>(1, 40)});
  }
  const Mixture mixture(weights);
  const auto global_batch = *rc::gen::inRange<int64_t>(1, 33);
  const Sampler sampler(channels, *rc::gen::arbitrary<uint64_t>(), global_batch);
  std::vector<std::set<int64_t>> epoch(channels.size());
  std::vector<int64_t> number(channels.size(), 0);
  for (int64_t step = 1; step * global_batch < 1000; ++step) {
    for (int64_t slot = 0; slot < global_batch; ++slot) {
      const Sample sample = sampler.sample(step, slot);
      const auto c = static_cast<size_t>(sample.channel);
      RC_ASSERT(sample.epoch == number[c] / channels[c].num_sequences);
      RC_ASSERT(sample.sequence >= 0 && sample.sequence < channels[c].num_sequences);
      RC_ASSERT(epoch[c].insert(sample.sequence).second);
      if (++number[c] % channels[c].num_sequences == 0) epoch[c].clear();
    }
    for (int c = 0; c < num_channels; ++c)
      RC_ASSERT(mixture.count(c, step * global_batch) == number[static_cast<size_t>(c)]);
  }
}

// The sample of a slot is the same whatever was asked before, from whichever object.
TEST(SamplerTest, IsAPureFunctionOfSeedStepAndSlot) {
  const std::vector<Sampler::ChannelShape> channels = {{"en", 0.7, 1000}, {"code", 0.3, 77}, {"off", 0, 0}};
  const Sampler a(channels, 1, 32), b(channels, 1, 32);
  std::vector<Sample> forward, backward(20 * 32);
  for (int64_t i = 0; i < 20 * 32; ++i) forward.push_back(a.sample(1 + i / 32, i % 32));
  for (int64_t i = 20 * 32; i-- > 0;) backward[static_cast<size_t>(i)] = b.sample(1 + i / 32, i % 32);
  EXPECT_EQ(forward, backward);
}

TEST(SamplerTest, TheOrderIsPinned) {
  const Sampler sampler({{"en", 0.7, 1000}, {"code", 0.3, 77}}, 1, 4);
  std::vector<std::string> got;
  for (int64_t slot = 0; slot < 4; ++slot) {
    const Sample sample = sampler.sample(100, slot);
    got.push_back(std::to_string(sample.channel) + ":" + std::to_string(sample.epoch) + ":" +
                  std::to_string(sample.sequence));
  }
  EXPECT_THAT(got, ::testing::ElementsAre("0:0:910", "0:0:571", "1:1:57",
                                          "0:0:40"));  // a change breaks the resume of every run
}

TEST(SamplerTest, SeedNameAndEpochShuffleAnew) {
  const auto order = [](const std::string& name, uint64_t seed, int64_t epoch) {
    const Sampler sampler({{name, 1, 64}}, seed, 64);
    std::vector<int64_t> sequences;
    for (int64_t slot = 0; slot < 64; ++slot) sequences.push_back(sampler.sample(epoch + 1, slot).sequence);
    return sequences;
  };
  const std::set<std::vector<int64_t>> orders = {order("a", 1, 0), order("a", 1, 1), order("a", 2, 0),
                                                 order("b", 1, 0)};
  EXPECT_EQ(orders.size(), 4u);
}

// Steps of a phase are those of the run; its order, its mixture and its epochs begin with its first one.
TEST(SamplerTest, APhaseHasAnOrderAndEpochsOfItsOwn) {
  const std::vector<Sampler::ChannelShape> channels = {{"en", 0.75, 48}, {"code", 0.25, 16}};
  constexpr int64_t kFirst = 101;  // an epoch of either channel is four steps of 16
  const auto order = [&](const Sampler& sampler) {
    std::vector<Sample> samples;
    for (int64_t i = 0; i < 8 * 16; ++i)
      samples.push_back(sampler.sample(sampler.first_step() + i / 16, i % 16));
    return samples;
  };
  std::vector<std::vector<Sample>> orders;
  for (const char* name : {"warm-up", "long context", "a"}) {
    orders.push_back(order(Sampler(channels, 1, 16, {name, kFirst})));
    std::map<std::pair<int, int64_t>, std::set<int64_t>> seen;  // of a channel and epoch
    for (const Sample& sample : orders.back())
      EXPECT_TRUE(seen[std::pair(sample.channel, sample.epoch)].insert(sample.sequence).second) << name;
    ASSERT_EQ(seen.size(), 4u) << name;
    for (const auto& [of, sequences] : seen) {
      EXPECT_LT(of.second, 2) << name;
      EXPECT_EQ(sequences.size(), of.first == 0 ? 48u : 16u) << name;
    }
    EXPECT_EQ(orders.back(), order(Sampler(channels, 1, 16, {name, 1}))) << name;  // wherever it begins
  }
  orders.push_back(order(Sampler(channels, 1, 16)));
  orders.push_back(order(Sampler(channels, 2, 16, {"a", 1})));
  for (size_t i = 0; i < orders.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(orders[i], orders[j]) << i << " " << j;
}

// A separator that a name may hold would give these two the same stream.
TEST(SamplerTest, NamesOfPhaseAndChannelDoNotRunTogether) {
  const auto order = [](const std::string& phase, const std::string& channel) {
    const Sampler sampler({{channel, 1, 64}}, 1, 64, {phase, 1});
    std::vector<int64_t> sequences;
    for (int64_t slot = 0; slot < 64; ++slot) sequences.push_back(sampler.sample(1, slot).sequence);
    return sequences;
  };
  const std::set<std::vector<int64_t>> orders = {order("a.b", "c"), order("a", "b.c"), order("", "a.b.c"),
                                                 order("a b", "c"), order("a", "b c")};
  EXPECT_EQ(orders.size(), 5u);
}

// Batches are left out, and what follows them is what would have followed: also past the end of an epoch, and more than
// once.
TEST(SamplerTest, ASkipLeavesOutWholeBatchesOfItsPhase) {
  const std::vector<Sampler::ChannelShape> channels = {{"en", 0.7, 20}, {"code", 0.3, 7}};
  const Sampler whole(channels, 1, 5, {"a", 11});
  const Sampler skipping(channels, 1, 5,
                         {.name = "a", .first_step = 11, .skips = {{3, 100}, {11, 1}, {14, 2}, {20, 40}}});
  const std::map<int64_t, int64_t> later = {{11, 1}, {12, 1}, {13, 1}, {14, 3}, {19, 3}, {20, 43}, {25, 43}};
  for (const auto& [step, batches] : later) {
    EXPECT_EQ(skipping.batch_of(step), step - 11 + batches);
    for (int64_t slot = 0; slot < 5; ++slot)
      EXPECT_EQ(skipping.sample(step, slot), whole.sample(step + batches, slot)) << step;
  }
  EXPECT_EQ(skipping.skips().size(), 3u);  // that of step 3 is of another phase
}

// First sequence of the epoch, over many seeds: every one of the eight comes about equally often.
TEST(SamplerTest, ShufflesAreUniform) {
  std::map<int64_t, int> first;
  for (uint64_t seed = 0; seed < 8000; ++seed) ++first[Sampler({{"a", 1, 8}}, seed, 1).sample(1, 0).sequence];
  ASSERT_EQ(first.size(), 8u);
  for (const auto& [sequence, count] : first) EXPECT_NEAR(count, 1000, 150) << sequence;  // five sigmas
}

TEST(SamplerTest, MisuseIsRefused) {
  EXPECT_THROW(Sampler({{"en", 1, 0}}, 1, 4), Error);
  EXPECT_THROW(Sampler({{"en", 1, 5}}, 1, 0), Error);
  const Sampler sampler({{"en", 1, 5}}, 1, 4);
  EXPECT_THROW(sampler.sample(0, 0), Error);
  EXPECT_THROW(sampler.sample(1, 4), Error);
  EXPECT_THROW(sampler.sample(1, -1), Error);
  EXPECT_THROW(Sampler({{"en", 1, 5}}, 1, 4, {"a", 7}).sample(6, 0), Error);
  EXPECT_THROW(Sampler({{"en", 1, 5}}, 1, 4, {"a", 0}), Error);
  EXPECT_THROW(Sampler({{"en", 1, 5}}, 1, 4, {"a/b", 1}), Error);
  EXPECT_THROW(sampler.sample(std::numeric_limits<int64_t>::max(), 0), Error);
  EXPECT_THROW(Sampler({{"en", 1, 5}}, 1, 4, {.skips = {{3, 0}}}), Error);
  const int64_t most = std::numeric_limits<int64_t>::max();
  const Sampler far({{"en", 1, 5}}, 1, 4, {.skips = {{3, most - 1}, {5, most - 1}}});
  EXPECT_NO_THROW(far.sample(2, 0));
  EXPECT_THROW(far.sample(3, 0), Error);
  EXPECT_THROW(far.sample(5, 0), Error);
}

}  // namespace
}  // namespace athanor::tests::sampler_test
