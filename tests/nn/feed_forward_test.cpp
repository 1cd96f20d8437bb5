// What works on each token: the gated MLP and the mixture of experts, beside plain loops.
#include "athanor/nn/feed_forward.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "athanor/nn/moe.h"
#include "nn/layer.h"

namespace athanor::tests::feed_forward_test {
namespace {

using ::testing::ElementsAre;

constexpr size_t kModelWidth = 6, kHidden = 8, kExperts = 5;

// down(silu(gate x) * up x)
Floats naive_swiglu_mlp(const Floats& x, const Floats& gate, const Floats& up, const Floats& down) {
  Floats hidden = naive_linear(x, gate, {}, kModelWidth);
  const Floats other = naive_linear(x, up, {}, kModelWidth);
  for (size_t i = 0; i < hidden.size(); ++i)
    hidden[i] = static_cast<float>(hidden[i] / (1.0 + std::exp(-static_cast<double>(hidden[i]))) * other[i]);
  return naive_linear(hidden, down, {}, hidden.size() / (x.size() / kModelWidth));
}

class FeedForwardTest : public ::testing::Test {
 protected:
  Engine engine{2};
};

TEST_F(FeedForwardTest, TheGateOpensWhatGoesUp) {
  const Rooted<SwigluMlp> mlp(engine, "mlp", SwigluMlp::Options{kModelWidth, kHidden, false, 0.6, 0.6});
  EXPECT_THAT(mlp.names(), ElementsAre("mlp.gate.weight", "mlp.up.weight", "mlp.down.weight"));
  const Tensor x = engine.random({2, 3, kModelWidth}, "x");
  expect_close(mlp.of(x), naive_swiglu_mlp(to_floats(x), mlp.values("mlp.gate.weight"),
                                           mlp.values("mlp.up.weight"), mlp.values("mlp.down.weight")));
}

TEST_F(FeedForwardTest, TheSumBehindItIsTheSameInOnePass) {
  const Rooted<SwigluMlp> mlp(engine, "mlp", SwigluMlp::Options{kModelWidth, kHidden, true, 0.6, 0.6});
  Module root(nullptr, "");
  const Tensor x = engine.random({2, 3, kModelWidth}, "x"), h = engine.random({2, 3, kModelWidth}, "h");
  for (const double rate : {0.0, 0.5}) {
    const Dropout dropout(&root, "dropout" + std::to_string(rate), rate);
    Tape tape({.seed = 2, .dropout = true});
    const Var in = tape.constant(x), held = tape.constant(h);
    EXPECT_EQ(to_floats(mlp.layer.add_to(held, in, dropout).value),
              to_floats(add(held, dropout(mlp.layer(in))).value));
  }
}

MoeOptions experts(bool deepseek) {
  MoeOptions options;
  options.width = kModelWidth;
  options.experts = kExperts;
  options.expert_width = kHidden;
  options.route = {.router = {}, .experts_per_token = 2};
  options.init_std = options.output_init_std = 0.6;
  if (!deepseek) return options;
  options.route.router.score = RouterScore::sigmoid;
  options.route.router.scale = 1.5f;
  options.shared_width = kHidden;
  options.bias_rate = 0.25;
  return options;
}

// Each token by itself: its best two experts, weighted by their scores, which are made to sum to one.
Floats naive_moe(const Rooted<MoeLayer>& moe, const Floats& x, bool deepseek) {
  const auto of_expert = [&](const Floats& stack, size_t e) {
    const auto first = stack.begin() + static_cast<std::ptrdiff_t>(e * kModelWidth * kHidden);
    return Floats(first, first + kModelWidth * kHidden);
  };
  const Floats gate = moe.values("moe.experts.gate.weight"), up = moe.values("moe.experts.up.weight"),
               down = moe.values("moe.experts.down.weight");
  Floats y;
  for (size_t n = 0; n < x.size() / kModelWidth; ++n) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(n * kModelWidth);
    const Floats token(begin, begin + kModelWidth);
    const Floats logits = naive_linear(token, moe.values("moe.router.weight"), {}, kModelWidth);
    std::vector<double> scores;
    for (const float logit : logits)
      scores.push_back(deepseek ? 1.0 / (1.0 + std::exp(-logit)) : std::exp(logit));
    std::vector<size_t> order(kExperts);
    std::iota(order.begin(), order.end(), 0);
    const Floats bias = deepseek ? moe.values("moe.router.bias") : Floats(kExperts, 0.0f);
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) {  // the softmax has the order of the logits
                return deepseek ? scores[a] + bias[a] > scores[b] + bias[b] : scores[a] > scores[b];
              });
    const double sum = scores[order[0]] + scores[order[1]];
    Floats out(kModelWidth, 0.0f);
    for (const size_t e : {order[0], order[1]}) {
      const Floats of = naive_swiglu_mlp(token, of_expert(gate, e), of_expert(up, e), of_expert(down, e));
      for (size_t i = 0; i < kModelWidth; ++i)
        out[i] += static_cast<float>((deepseek ? 1.5 : 1.0) * scores[e] / sum * static_cast<double>(of[i]));
    }
    if (deepseek) {
      const Floats shared =
          naive_swiglu_mlp(token, moe.values("moe.shared.gate.weight"), moe.values("moe.shared.up.weight"),
                           moe.values("moe.shared.down.weight"));
      for (size_t i = 0; i < kModelWidth; ++i) out[i] += shared[i];
    }
    y.insert(y.end(), out.begin(), out.end());
  }
  return y;
}

TEST_F(FeedForwardTest, EveryTokenGetsItsExperts) {
  const Tensor x = engine.random({2, 9, kModelWidth}, "x");
  for (const bool deepseek : {false, true}) {
    const Rooted<MoeLayer> moe(engine, "moe", experts(deepseek));
    EXPECT_EQ(moe.names().size(), deepseek ? 8u : 4u);
    expect_close(moe.of(x), naive_moe(moe, to_floats(x), deepseek));
  }
}

TEST_F(FeedForwardTest, TheLoadIsThatOfRecordedPasses) {
  const Rooted<MoeLayer> moe(engine, "moe", experts(false));
  const Tensor x = engine.random({2, 9, kModelWidth}, "x");
  moe.of(x);
  EXPECT_EQ(moe.layer.take_load().tokens, 0);
  for (int pass = 0; pass < 2; ++pass) {
    Tape tape({.num_sequences = 2, .seq_len = 9, .record = true});
    moe.layer(tape.leaf(x));
  }
  const RouterLoad load = moe.layer.take_load();
  EXPECT_EQ(load.tokens, 36);
  EXPECT_EQ(std::accumulate(load.chosen.begin(), load.chosen.end(), int64_t{0}), 72);
  EXPECT_EQ(load.dropped, 0);
  EXPECT_GE(load.aux_loss, 36.0 * 0.5);  // about one a token
  EXPECT_EQ(moe.layer.take_load().tokens, 0);
}

// Towards those that have less than the mean, by the rate; a choice may then be another one.
TEST_F(FeedForwardTest, BalanceMovesTheBiasByTheSignOfTheLoad) {
  Rooted<MoeLayer> moe(engine, "moe", experts(true));
  EXPECT_TRUE(moe.param("moe.router.bias").is_state());
  EXPECT_EQ(moe.values("moe.router.bias"), Floats(kExperts, 0.0f));
  moe.layer.balance(std::vector<int64_t>{10, 0, 4, 3, 3});  // the mean is 4
  EXPECT_THAT(moe.values("moe.router.bias"), ElementsAre(-0.25f, 0.25f, 0.0f, 0.25f, 0.25f));
  const Tensor x = engine.random({2, 9, kModelWidth}, "x");
  expect_close(moe.of(x), naive_moe(moe, to_floats(x), true));
  EXPECT_THROW(moe.layer.balance(std::vector<int64_t>{1, 2}), Error);
}

}  // namespace
}  // namespace athanor::tests::feed_forward_test
