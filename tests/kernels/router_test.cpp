// router: the choice, its weights and the sums against a naive computation; ties, biases, broken logits.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/kernel_test.h"

namespace athanor::tests::router_test {
namespace {

using RouterTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, RouterTest, row_isas(), isa_test_name);

struct Case {
  int64_t tokens, experts, chosen;
  RouterOptions options;
  bool bias;
};

std::vector<Case> cases() {
  const RouterOptions mixtral{.aux_loss = 0.5f, .z_loss = 0.25f};
  RouterOptions plain = mixtral, deepseek = mixtral, sigmoid = mixtral;
  plain.renormalize = false, plain.scale = 1.5f;
  deepseek.score = sigmoid.score = RouterScore::sigmoid;
  deepseek.scale = 2.5f;
  sigmoid.renormalize = false;
  return {{1, 1, 1, mixtral, false},  {7, 5, 2, mixtral, false},   {70, 8, 2, plain, true},
          {131, 9, 9, mixtral, true}, {65, 17, 3, deepseek, true}, {64, 4, 1, sigmoid, false},
          {0, 4, 2, mixtral, true}};
}

struct Routed {
  std::vector<std::vector<int>> experts;
  Values weights, lse, sums;
};

// Of one token after the other, in double.
Routed naive(const Case& c, const Values& logits, const Values& bias) {
  Routed routed;
  const auto experts = static_cast<size_t>(c.experts);
  routed.sums.assign(experts + 1, 0.0);
  for (int64_t n = 0; n < c.tokens; ++n) {
    const double* row = logits.data() + n * c.experts;
    double lse = 0;
    for (size_t e = 0; e < experts; ++e) lse += std::exp(row[e]);
    lse = std::log(lse);
    Values scores, ranks;
    for (size_t e = 0; e < experts; ++e) {
      scores.push_back(c.options.score == RouterScore::sigmoid ? 1 / (1 + std::exp(-row[e]))
                                                               : std::exp(row[e] - lse));
      ranks.push_back(scores[e] + (c.bias ? bias[e] : 0));
    }
    std::vector<int> order(experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return ranks[static_cast<size_t>(a)] > ranks[static_cast<size_t>(b)];
    });
    order.resize(static_cast<size_t>(c.chosen));
    double sum = 0;
    for (const int e : order) sum += scores[static_cast<size_t>(e)];
    for (const int e : order)
      routed.weights.push_back(c.options.scale * scores[static_cast<size_t>(e)] /
                               (c.options.renormalize ? sum : 1));
    const double all = std::accumulate(scores.begin(), scores.end(), 0.0);
    for (size_t e = 0; e < experts; ++e) routed.sums[e] += scores[e] / all;
    routed.sums[experts] += lse * lse;
    routed.lse.push_back(lse);
    routed.experts.push_back(order);
  }
  return routed;
}

TEST_P(RouterTest, ChoosesAndWeighsAsItsFormulas) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(fmt::format("{} tokens, {} of {} experts", c.tokens, c.chosen, c.experts));
    const Values logits = random_values(c.tokens * c.experts, Dtype::f32, 1, 2);
    const Values bias = random_values(c.experts, Dtype::f32, 2, 0.1);
    const auto got = run(GetParam(), [&](Bench& bench) {
      Tensor experts =
          bench.ids(std::vector<int32_t>(static_cast<size_t>(c.tokens * c.chosen), -7), {c.tokens, c.chosen});
      Tensor weights = bench.output({c.tokens, c.chosen}, Dtype::f32),
             lse = bench.output({c.tokens}, Dtype::f32);
      Tensor sums = zeros(bench.arena(), {c.experts + 1}, Dtype::f64, Category::activations);
      const Tensor biases = bench.input(bias, {c.experts}, Dtype::f32);
      bench.kernels().router.forward(bench.queue(), experts, weights, lse, sums,
                                     bench.input(logits, {c.tokens, c.experts}, Dtype::f32),
                                     c.bias ? &biases : nullptr, c.options);
      return std::vector{experts, weights, lse, sums};
    });
    const Routed expected = naive(c, logits, bias);
    for (size_t n = 0; n < expected.experts.size(); ++n)
      for (size_t k = 0; k < expected.experts[n].size(); ++k)
        ASSERT_EQ(got[0][n * static_cast<size_t>(c.chosen) + k], expected.experts[n][k]) << n << " " << k;
    expect_close(got[1], expected.weights, 1e-5);
    expect_close(got[2], expected.lse, 1e-5);
    expect_close(got[3], expected.sums, 1e-5);
  }
}

// The scalar that backward differentiates, in double, with the choice held fixed.
double objective(const Case& c, const Values& logits, const std::vector<std::vector<int>>& chosen,
                 const Values& dweights, const Values& share, double loss_scale) {
  double value = 0;
  const auto experts = static_cast<size_t>(c.experts);
  for (size_t n = 0; n < chosen.size(); ++n) {
    const double* row = logits.data() + n * experts;
    double lse = 0, all = 0, sum = 0;
    for (size_t e = 0; e < experts; ++e) lse += std::exp(row[e]);
    lse = std::log(lse);
    Values s;
    for (size_t e = 0; e < experts; ++e)
      s.push_back(c.options.score == RouterScore::sigmoid ? 1 / (1 + std::exp(-row[e]))
                                                          : std::exp(row[e] - lse));
    for (const double v : s) all += v;
    for (const int e : chosen[n]) sum += s[static_cast<size_t>(e)];
    for (size_t k = 0; k < chosen[n].size(); ++k)
      value += dweights[n * chosen[n].size() + k] * c.options.scale * s[static_cast<size_t>(chosen[n][k])] /
               (c.options.renormalize ? sum : 1);
    for (size_t e = 0; e < experts; ++e)
      value += loss_scale * c.options.aux_loss * static_cast<double>(experts) * share[e] * s[e] / all;
    value += loss_scale * c.options.z_loss * lse * lse;
  }
  return value;
}

TEST_P(RouterTest, BackwardIsTheSlopeOfWeightsAndAuxiliaryLosses) {
  constexpr double kLossScale = 4;
  for (const Case& c : cases()) {
    SCOPED_TRACE(fmt::format("{} tokens, {} of {} experts", c.tokens, c.chosen, c.experts));
    Values logits = random_values(c.tokens * c.experts, Dtype::f32, 1, 2);
    const Values bias = random_values(c.experts, Dtype::f32, 2, 0.1);
    const Values dweights = random_values(c.tokens * c.chosen, Dtype::f32, 3);
    Values share = random_values(c.experts, Dtype::f32, 4);
    for (double& value : share) value = round_to(std::abs(value), Dtype::f32);
    const Routed routed = naive(c, logits, bias);
    std::vector<int32_t> chosen;
    for (const auto& row : routed.experts) chosen.insert(chosen.end(), row.begin(), row.end());
    const auto got = run(GetParam(), [&](Bench& bench) {
      Tensor dlogits = bench.output({c.tokens, c.experts}, Dtype::f32);
      bench.kernels().router.backward(
          bench.queue(), dlogits, bench.input(dweights, {c.tokens, c.chosen}, Dtype::f32),
          bench.input(logits, {c.tokens, c.experts}, Dtype::f32), bench.ids(chosen, {c.tokens, c.chosen}),
          bench.input(routed.lse, {c.tokens}, Dtype::f32), bench.input(share, {c.experts}, Dtype::f32),
          c.options, kLossScale);
      return std::vector{dlogits};
    });
    Values expected;
    for (double& logit : logits) {
      constexpr double kLogitStep = 1e-5;
      const double kept = logit;
      logit = kept + kLogitStep;
      const double up = objective(c, logits, routed.experts, dweights, share, kLossScale);
      logit = kept - kLogitStep;
      const double down = objective(c, logits, routed.experts, dweights, share, kLossScale);
      logit = kept;
      expected.push_back((up - down) / (2 * kLogitStep));
    }
    expect_close(got[0], expected, 2e-5);
  }
}

std::vector<double> choice(const Values& logits, int64_t chosen, const Values* bias = nullptr) {
  Bench bench(Isa::generic, 1);
  const auto experts = static_cast<int64_t>(logits.size());
  Tensor ids = bench.ids(std::vector<int32_t>(static_cast<size_t>(chosen), -7), {1, chosen});
  Tensor weights = bench.output({1, chosen}, Dtype::f32), lse = bench.output({1}, Dtype::f32);
  Tensor sums = zeros(bench.arena(), {experts + 1}, Dtype::f64, Category::activations);
  Tensor biases;
  if (bias != nullptr) biases = bench.input(*bias, {experts}, Dtype::f32);
  bench.kernels().router.forward(bench.queue(), ids, weights, lse, sums,
                                 bench.input(logits, {1, experts}, Dtype::f32),
                                 bias == nullptr ? nullptr : &biases, {});
  return values_of(ids);
}

TEST(Router, OfEqualScoresTheLowerIndexIsFirst) {
  EXPECT_EQ(choice({1, 1, 1, 1}, 2), (Values{0, 1}));
  EXPECT_EQ(choice({0, 2, 1, 2, 2}, 3), (Values{1, 3, 4}));
  EXPECT_EQ(choice({0, 2, 1, 2, 2, 0}, 6), (Values{1, 3, 4, 2, 0, 5}));
}

TEST(Router, TheBiasMovesTheChoiceOnly) {
  const Values bias = {0, 0, 0, 5};
  EXPECT_EQ(choice({3, 2, 1, 0}, 2, &bias), (Values{3, 0}));
}

TEST(Router, ALogitThatIsNoNumberLeavesAValidChoice) {
  const Values ids = choice({NAN, NAN, NAN}, 2);
  EXPECT_EQ(ids, (Values{0, 1}));
}

}  // namespace
}  // namespace athanor::tests::router_test
