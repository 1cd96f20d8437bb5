// The judge of every operation's backward: it must find a gradient that is wrong, and where.
#include "support/gradient_check.h"

#include <gmock/gmock.h>

#include <limits>

#include "autograd/small_ops.h"

namespace athanor::tests::gradient_check_test {
namespace {

// Square whose gradient is wrong in one element.
struct WrongSquare : Square {
  static inline float factor = 1.0f;
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dx = Square::backward_input(saved, dy)[0];
    dx.data<float>()[1] *= factor;
    return {dx};
  }
};
struct WrongWeighted : Weighted {
  static void backward_weight(const Saved& saved, const Tensor& dy) {
    Weighted::backward_weight(saved, dy);
    saved.weight->grad().data<float>()[2] += 0.25f;
  }
};

TEST_F(TapeTest, ARightGradientPasses) {
  Weight& w = weight("w", {0.5f, -1.5f, 2.0f});
  const GradientReport report =
      check_gradients({values({0.3f, -0.8f, 0.6f})}, {&w}, [&](Tape& tape, std::span<const Var> x) {
        return apply<Square>(tape, apply<Weighted>(tape, x[0], w));
      });
  EXPECT_LT(report.worst, 2e-3) << report.where;
}

TEST_F(TapeTest, AWrongElementOfAnInputIsNamed) {
  for (const float factor : {0.9f, -1.0f, 0.0f, std::numeric_limits<float>::quiet_NaN()}) {
    WrongSquare::factor = factor;
    const GradientReport report =
        check_gradients({values({0.3f, -0.8f, 0.6f})}, {},
                        [&](Tape& tape, std::span<const Var> x) { return apply<WrongSquare>(tape, x[0]); });
    EXPECT_GT(report.worst, 1e-2) << factor;
    EXPECT_THAT(report.where, ::testing::StartsWith("input 0 [1]: analytic "));
  }
}

TEST_F(TapeTest, AWrongElementOfAWeightIsNamed) {
  Weight& w = weight("w", {0.5f, -1.5f, 2.0f});
  const GradientReport report = check_gradients(
      {values({0.3f, -0.8f, 0.6f})}, {&w},
      [&](Tape& tape, std::span<const Var> x) { return apply<WrongWeighted>(tape, x[0], w); });
  EXPECT_NEAR(report.worst, 0.25, 1e-2);
  EXPECT_THAT(report.where, ::testing::StartsWith("weight w [2]: analytic "));
}

}  // namespace
}  // namespace athanor::tests::gradient_check_test
