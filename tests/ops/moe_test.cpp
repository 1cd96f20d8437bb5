// The operations of a mixture of experts: central differences, auxiliary losses, capacity, half precision.
#include <gtest/gtest.h>

#include <cmath>

#include "athanor/nn/moe.h"
#include "support/engine.h"
#include "support/gradient_check.h"

namespace athanor::tests::moe_test {
namespace {

constexpr double kMoeGradientTolerance = 2e-3;  // of central differences in f32 with eps 1e-2

// A layer as the root of its own tree, with its parameters in memory.
struct Layer : Module {
  Layer(Engine& engine, const MoeOptions& options, Dtype dtype = Dtype::f32)
      : Module(nullptr, ""), moe(this, "moe", options) {
    for (const auto& param : params()) {
      param->allocate(engine.arena, dtype, false);
      param->initialize(3);
    }
    for (Weight* weight : weights())
      weight->set_grad(zeros(engine.arena, weight->param().shape(), Dtype::f32, Category::gradients));
  }
  const Param& param(const std::string& name) const {
    for (const auto& each : params())
      if (each->name() == name) return *each;
    fail("test: no parameter '{}'", name);
  }
  MoeLayer moe;
};

MoeOptions small_moe(RouterScore score) {
  return {.width = 6,
          .experts = 5,
          .expert_width = 7,
          .shared_width = score == RouterScore::sigmoid ? 4 : 0,
          .route = {{.score = score}, 2, 0.0},
          .bias_rate = score == RouterScore::sigmoid ? 0.01 : 0.0,
          .init_std = 0.6,
          .output_init_std = 0.6};
}

class MoeTest : public ::testing::TestWithParam<RouterScore> {
 protected:
  Engine engine_{2};
};
INSTANTIATE_TEST_SUITE_P(Scores, MoeTest, ::testing::Values(RouterScore::softmax, RouterScore::sigmoid),
                         [](const auto& score) {
                           return score.param == RouterScore::softmax ? "Softmax" : "Sigmoid";
                         });

// A token whose choice is far from a tie, so that central differences do not move it.
TEST_P(MoeTest, GradientsOfTheLayerAreItsSlopes) {
  for (const bool renormalize : {true, false}) {
    MoeOptions options = small_moe(GetParam());
    options.route.router.renormalize = renormalize;
    options.route.router.scale = 1.5f;
    Layer layer(engine_, options);
    const GradientReport report = check_gradients(
        {engine_.random({2, 4, 6}, "x")}, layer.weights(),
        [&](Tape&, std::span<const Var> x) { return layer.moe(x[0]); }, 2e-3f);
    EXPECT_LT(report.worst, kMoeGradientTolerance) << report.where;
  }
}

TEST_P(MoeTest, CapacityDropsTheLaterTokensInTrainingOnly) {
  MoeOptions options = small_moe(GetParam());
  options.route.capacity_factor = 0.6;  // ceil(0.6 * 8 * 2 / 5) = 2 rows an expert: some drop
  Layer layer(engine_, options);
  const PassContext training{.dropout = true};
  const GradientReport report = check_gradients(
      {engine_.random({2, 4, 6}, "x")}, layer.weights(),
      [&](Tape&, std::span<const Var> x) { return layer.moe(x[0]); }, 2e-3f, training);
  EXPECT_LT(report.worst, kMoeGradientTolerance) << report.where;
  const RouterLoad load = layer.moe.take_load();
  EXPECT_EQ(load.tokens, 8);
  EXPECT_GT(load.dropped, 0);
  int64_t dropped = 0;
  for (const int64_t chosen : load.chosen) dropped += std::max<int64_t>(0, chosen - 2);
  EXPECT_EQ(load.dropped, dropped);

  Tape scoring(PassContext{.record = true});
  layer.moe(scoring.constant(engine_.random({2, 4, 6}, "x")));
  EXPECT_EQ(layer.moe.take_load().dropped, 0);
  Tape quiet(PassContext{.dropout = true});
  layer.moe(quiet.constant(engine_.random({2, 4, 6}, "x")));
  EXPECT_EQ(layer.moe.take_load().tokens, 0) << "a pass that is not recorded counts nothing";
}

// A sequence scores alike alone and in company: without a capacity, tokens do not see each other.
TEST_P(MoeTest, TokensAreIndependent) {
  Layer layer(engine_, small_moe(GetParam()));
  const Tensor x = engine_.random({3, 4, 6}, "x");
  Tape tape(PassContext{});
  const std::vector<float> whole = to_floats(layer.moe(tape.constant(x)).value);
  for (int64_t b = 0; b < 3; ++b) {
    const std::vector<float> one = to_floats(layer.moe(tape.constant(x.slice(b, b + 1))).value);
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(one[i], whole[static_cast<size_t>(b) * one.size() + i], 1e-5);
  }
}

// The losses have no value on the tape: with no gradient from above, the router's slope is theirs alone.
TEST_P(MoeTest, AuxiliaryLossesEnterTheGradientsAsSumsOverTokens) {
  constexpr float kAux = 0.3f, kZ = 0.2f, kLossScale = 8.0f;
  MoeOptions options = small_moe(GetParam());
  options.route.router.aux_loss = kAux;
  options.route.router.z_loss = kZ;
  Layer layer(engine_, options);
  const Tensor x = engine_.random({2, 4, 6}, "x");
  const auto value = [&] {
    Tape tape(PassContext{.record = true});
    layer.moe(tape.leaf(x));
    const RouterLoad load = layer.moe.take_load();
    return double{kAux} * load.aux_loss + double{kZ} * load.z_loss;
  };
  Tape tape(PassContext{.record = true, .loss_scale = kLossScale});
  const Var leaf = tape.leaf(x);
  const Var y = layer.moe(leaf);
  layer.moe.take_load();
  tape.backward(y, zeros(engine_.arena, y.value.shape(), Dtype::f32, Category::activations));
  const Param& gate = layer.param("moe.router.weight");
  const auto slopes = [&](const Tensor& moved, const std::vector<float>& analytic, const char* name) {
    for (int64_t i = 0; i < moved.numel(); ++i) {
      float& element = moved.data<float>()[i];
      const float kept = element;
      element = kept + 1e-3f;
      const double up = value();
      element = kept - 1e-3f;
      const double down = value();
      element = kept;
      EXPECT_NEAR(analytic[static_cast<size_t>(i)], kLossScale * (up - down) / 2e-3, 5e-3) << name << i;
    }
  };
  slopes(gate.value(), to_floats(gate.uses()[0]->grad()), "gate ");
  slopes(x, to_floats(tape.grad(leaf)), "x ");
}

TEST_P(MoeTest, HalfPrecisionFollowsF32) {
  // Values that bf16 holds exactly, so that both choose the same experts but for sums near a tie.
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    MoeOptions options = small_moe(GetParam());
    options.width = 32, options.expert_width = 48;
    options.init_std = options.output_init_std = 0.2;
    Layer half(engine_, options, dtype), full(engine_, options);
    for (size_t i = 0; i < full.params().size(); ++i) {
      const std::vector<float> rounded = to_floats(half.params()[i]->value());
      full.params()[i]->store_whole(rounded.data());
    }
    EXPECT_EQ(half.param("moe.router.weight").value().dtype(), dtype);
    const Tensor x = engine_.random({2, 9, 32}, "x", 1.0f, dtype),
                 dy = engine_.random(x.shape(), "dy", 1.0f, dtype);
    std::vector<std::vector<float>> outputs[2];
    for (int which = 0; which < 2; ++which) {
      Layer& layer = which == 0 ? half : full;
      const auto as = [&](const Tensor& t) {
        Tensor cast = empty(engine_.arena, t.shape(), which == 0 ? dtype : Dtype::f32, Category::activations);
        kernels_of(t).elementwise.cast(t.queue(), cast, t);
        return cast;
      };
      Tape tape(PassContext{.record = true});
      const Var leaf = tape.leaf(as(x));
      const Var y = layer.moe(leaf);
      tape.backward(y, as(dy));
      outputs[which] = {to_floats(y.value), to_floats(tape.grad(leaf))};
      for (Weight* weight : layer.weights()) outputs[which].push_back(to_floats(weight->grad()));
    }
    for (size_t i = 0; i < outputs[0].size(); ++i) {
      double gap = 0, norm = 0;
      for (size_t k = 0; k < outputs[0][i].size(); ++k) {
        gap += std::pow(double{outputs[0][i][k]} - double{outputs[1][i][k]}, 2);
        norm += std::pow(double{outputs[1][i][k]}, 2);
      }
      EXPECT_LT(std::sqrt(gap / norm), dtype == Dtype::bf16 ? 3e-2 : 4e-3)
          << name_of(dtype) << " result " << i;
    }
  }
}

TEST_P(MoeTest, AnExpertWithoutTokensHasAGradientOfZero) {
  Layer layer(engine_, small_moe(GetParam()));
  for (Weight* weight : layer.weights()) {  // what an earlier step left
    weight->set_grad(engine_.random(weight->param().shape(), "old"));
    weight->begin_grad();
  }
  Tape tape(PassContext{.record = true});
  const Var y = layer.moe(tape.leaf(engine_.random({1, 1, 6}, "x")));  // one token: two experts of five
  tape.backward(y, engine_.random(y.value.shape(), "dy"));
  const RouterLoad load = layer.moe.take_load();
  for (Weight* weight : layer.weights()) {
    if (weight->param().shape().dims() != 3) continue;
    for (int64_t e = 0; e < 5; ++e) {
      double sum = 0;
      for (const float g : to_floats(weight->grad().slice(e, e + 1))) sum += std::abs(double{g});
      EXPECT_EQ(sum == 0.0, load.chosen[static_cast<size_t>(e)] == 0) << weight->param().name() << " " << e;
    }
  }
}

TEST(Moe, TheBiasGoesAgainstTheExactLoad) {
  Engine engine;
  Layer layer(engine, small_moe(RouterScore::sigmoid));
  const std::vector<int64_t> load = {4, 6, 5, 0, 10};  // mean 5
  layer.moe.balance(load);
  layer.moe.balance(load);
  EXPECT_EQ(to_floats(layer.param("moe.router.bias").value()),
            (std::vector<float>{.02f, -.02f, 0, .02f, -.02f}));
  EXPECT_TRUE(layer.param("moe.router.bias").is_state());
  EXPECT_THROW(layer.moe.balance(std::vector<int64_t>{1}), Error);
}

TEST(Moe, WrongShapesAreRefusedByName) {
  Engine engine;
  Tape tape(PassContext{});
  const auto stack = engine.param({3, 4, 5}, "experts"), gate = engine.param({3, 5}, "gate");
  const Var x = tape.constant(engine.random({7, 5}, "x"));
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  Weight& weight = *stack->uses()[0];
  EXPECT_EQ(message([&] {
              expert_linear(x, weight, {3, 3, 2});
            }),
            "expert_linear: got 7 rows, their counts sum to 8");
  EXPECT_EQ(message([&] {
              expert_linear(x, weight, {3, 4});
            }),
            "expert_linear: got counts of 2 experts, 'experts' is [3,4,5]");
  EXPECT_EQ(message([&] {
              router_logits(tape.constant(engine.random({7, 4}, "x")), *gate->uses()[0]);
            }),
            "router: x [7,4] must end in the columns of 'gate' [3,5]");
  EXPECT_EQ(message([&] {
              route(tape.constant(engine.random({7, 3}, "l")), nullptr, {{}, 4, 0.0});
            }),
            "route: got 4 experts per token, expected 1 to 3");
}

}  // namespace
}  // namespace athanor::tests::moe_test
