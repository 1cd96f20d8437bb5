// linear_cross_entropy against the plain formula in double, with chunks smaller than the tokens.
#include <gtest/gtest.h>

#include <cmath>

#include "athanor/ops/ops.h"
#include "support/engine.h"

namespace athanor::tests::loss_test {
namespace {

struct Expected {
  std::vector<double> loss, dx, dw;
};

Expected by_hand(const std::vector<float>& x, const std::vector<float>& w,
                 const std::vector<int32_t>& targets, int64_t n, int64_t c, int64_t v, int64_t classes,
                 double scale) {
  Expected out{std::vector<double>(n), std::vector<double>(n * c), std::vector<double>(v * c)};
  for (int64_t i = 0; i < n; ++i) {
    if (targets[i] < 0) continue;
    std::vector<double> logits(classes);
    double sum = 0.0;
    for (int64_t j = 0; j < classes; ++j) {
      for (int64_t k = 0; k < c; ++k) logits[j] += double(x[i * c + k]) * double(w[j * c + k]);
      sum += std::exp(logits[j]);
    }
    out.loss[i] = std::log(sum) - logits[targets[i]];
    for (int64_t j = 0; j < classes; ++j) {
      const double g = scale * (std::exp(logits[j]) / sum - (j == targets[i] ? 1.0 : 0.0));
      for (int64_t k = 0; k < c; ++k) {
        out.dx[i * c + k] += g * double(w[j * c + k]);
        out.dw[j * c + k] += g * double(x[i * c + k]);
      }
    }
  }
  return out;
}

template <typename A, typename B>
double relative(const A& got, const B& expected) {
  double gap = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    gap += std::pow(double(got[i]) - expected[i], 2);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(gap / norm);
}

TEST(LinearCrossEntropy, MatchesTheFormulaWithIgnoredTargetsAndPadding) {
  Engine engine(2);
  constexpr int64_t kTokens = 37, kWidth = 9, kVocab = 21, kClasses = 19;
  const Tensor x = engine.random({kTokens, kWidth}, "x");
  const auto head = engine.param({kVocab, kWidth}, "head", 1.0f);
  Tensor targets = engine.ids({kTokens}, kClasses, "targets");
  targets.data<int32_t>()[5] = -1;
  Weight& weight = *head->uses()[0];
  weight.set_grad(zeros(engine.arena, {kVocab, kWidth}, Dtype::f32, Category::gradients));
  Tape tape(PassContext{.record = true, .loss_scale = 4.0f});
  const Var input = tape.leaf(x);
  const Var loss = linear_cross_entropy(input, weight, nullptr, targets, kClasses);
  tape.backward(loss);
  const std::vector<int32_t> ids(targets.data<int32_t>(), targets.data<int32_t>() + kTokens);
  const Expected expected =
      by_hand(to_floats(x), to_floats(head->value()), ids, kTokens, kWidth, kVocab, kClasses, 4.0);
  EXPECT_LT(relative(to_floats(loss.value), expected.loss), 1e-6);
  EXPECT_LT(relative(to_floats(tape.grad(input)), expected.dx), 1e-5);
  EXPECT_LT(relative(to_floats(weight.grad()), expected.dw), 1e-5);
  EXPECT_EQ(to_floats(loss.value)[5], 0.0f);
}

// Many tokens and a large vocabulary: the logits would be 256 MiB; only a chunk of them may exist.
TEST(LinearCrossEntropy, NeverHoldsAllLogits) {
  Engine engine(2);
  constexpr int64_t kTokens = 1100, kWidth = 4, kVocab = 60000;
  const Tensor x = engine.random({kTokens, kWidth}, "x");
  const auto head = engine.param({kVocab, kWidth}, "head");
  Weight& weight = *head->uses()[0];
  weight.set_grad(zeros(engine.arena, {kVocab, kWidth}, Dtype::f32, Category::gradients));
  const Tensor targets = engine.ids({kTokens}, kVocab, "targets");
  engine.arena.reset_peak();
  Tape tape(PassContext{.record = true});
  tape.backward(linear_cross_entropy(tape.leaf(x), weight, nullptr, targets, kVocab));
  EXPECT_LT(engine.arena.usage().peak[static_cast<size_t>(Category::workspace)], uint64_t{160} << 20);
}

TEST(LinearCrossEntropy, RefusesShapesThatDoNotFit) {
  Engine engine;
  const auto head = engine.param({8, 4}, "head");
  Tape tape(PassContext{});
  const Tensor targets = engine.ids({3}, 8, "t");
  EXPECT_THROW(
      linear_cross_entropy(tape.constant(engine.random({3, 5}, "x")), *head->uses()[0], nullptr, targets, 8),
      Error);
  EXPECT_THROW(
      linear_cross_entropy(tape.constant(engine.random({2, 4}, "x")), *head->uses()[0], nullptr, targets, 8),
      Error);
  const Tensor high = engine.ids({3}, 1, "h");
  high.data<int32_t>()[1] = 8;
  EXPECT_THROW(
      linear_cross_entropy(tape.constant(engine.random({3, 4}, "x")), *head->uses()[0], nullptr, high, 8),
      Error);
}

}  // namespace
}  // namespace athanor::tests::loss_test
