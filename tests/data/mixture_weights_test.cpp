#include <gmock/gmock.h>

#include "athanor/data/mixture.h"
#include "data/fakes.h"

namespace athanor::tests::mixture_weights_test {
namespace {

using ::testing::HasSubstr;
using Asks = std::vector<ChannelAsk>;

// 4,000 sequences of 10 places are drawn.
constexpr MixtureAsk kDrawn{.steps = 100, .global_batch = 40, .seq_len = 10};

TEST(MixtureWeights, BudgetsAreMetAndWeightsShareTheRest) {
  const Asks asks = {{.name = "a", .epochs = 2.5, .train_sequences = 400, .train_tokens = 4001},
                     {.name = "b", .tokens = 5000, .train_sequences = 90, .train_tokens = 901},
                     {.name = "c", .weight = 3, .train_sequences = 10000, .train_tokens = 100001},
                     {.name = "d", .train_sequences = 10000, .train_tokens = 100001}};
  const Mixture mixture(mixture_weights(asks, kDrawn));
  const std::vector<int64_t> expected = {1000, 500, 1875, 625};
  for (int c = 0; c < 4; ++c) EXPECT_NEAR(mixture.count(c, 4000), expected[static_cast<size_t>(c)], 2) << c;
}

TEST(MixtureWeights, BudgetsAloneMustAddUp) {
  Asks asks = {{.name = "a", .epochs = 4, .train_sequences = 500},
               {.name = "b", .tokens = 20000, .train_sequences = 90}};
  EXPECT_EQ(mixture_weights(asks, kDrawn), (std::vector<double>{0.5, 0.5}));
  asks[1].tokens = 20300;  // less than a step more
  EXPECT_NO_THROW(mixture_weights(asks, kDrawn));
  for (const int64_t tokens : {10000, 40000}) {
    asks[1].tokens = tokens;
    const std::string text = failure_of([&] { mixture_weights(asks, kDrawn); });
    EXPECT_THAT(text, HasSubstr(tokens == 10000 ? "ask for 3000 sequences ('a' 2000, 'b' 1000)"
                                                : "ask for 6000 sequences ('a' 2000, 'b' 4000)"));
  }
  asks = {{.name = "a", .epochs = 8, .train_sequences = 500}, {.name = "rest"}};
  EXPECT_THAT(failure_of([&] { mixture_weights(asks, kDrawn); }),
              HasSubstr("ask for 4000 sequences ('a' 4000), expected fewer than the 4000 of 100 steps"));
}

TEST(MixtureWeights, ATemperatureGivesSmallChannelsMore) {
  const Asks asks = {{.name = "en", .train_tokens = 160000}, {.name = "is", .train_tokens = 10000}};
  const auto share = [&](double temperature) {
    MixtureAsk ask = kDrawn;
    ask.temperature = temperature;
    const std::vector<double> weights = mixture_weights(asks, ask);
    return weights[1] / (weights[0] + weights[1]);
  };
  EXPECT_NEAR(share(1), 1.0 / 17, 1e-12);
  EXPECT_NEAR(share(2), 1.0 / 5, 1e-12);  // 16^(1/2)
  EXPECT_NEAR(share(4), 1.0 / 3, 1e-12);
  EXPECT_NEAR(share(1e9), 0.5, 1e-6);
}

TEST(MixtureWeights, TwoKeysForOneShareAreRefused) {
  const auto refusal = [](const ChannelAsk& ask, double temperature) {
    MixtureAsk with = kDrawn;
    with.temperature = temperature;
    return failure_of([&] { mixture_weights(std::span(&ask, 1), with); });
  };
  EXPECT_THAT(refusal({.name = "x", .weight = 0.5, .epochs = 2, .train_sequences = 9}, 0),
              HasSubstr("channel 'x': got weight = 0.5 and epochs = 2, expected one of them"));
  EXPECT_THAT(refusal({.name = "x", .epochs = 2, .tokens = 7, .train_sequences = 9}, 0),
              HasSubstr("channel 'x': got epochs = 2 and tokens = 7"));
  EXPECT_THAT(refusal({.name = "x", .tokens = 7}, 2),
              HasSubstr("channel 'x': got tokens = 7 beside data.temperature = 2"));
  EXPECT_THAT(refusal({.name = "x", .weight = 0.5}, 2),
              HasSubstr("got weight = 0.5 beside data.temperature"));
  EXPECT_EQ(refusal({.name = "x", .weight = 0.5}, 0), "");
}

}  // namespace
}  // namespace athanor::tests::mixture_weights_test
