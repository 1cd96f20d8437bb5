// Linear, norms, embedding, dropout and residual sums beside plain loops, and the table of rotations.
#include <gmock/gmock.h>

#include "athanor/nn/embedding.h"
#include "athanor/nn/norm.h"
#include "athanor/nn/residual.h"
#include "athanor/nn/rope_table.h"
#include "nn/layer.h"

namespace athanor::tests::layers_test {
namespace {

using ::testing::ElementsAre;

class Layers : public ::testing::Test {
 protected:
  Engine engine{2};
};

TEST_F(Layers, LinearIsTheProductAndTheBias) {
  const Tensor x = engine.random({2, 3, 7}, "x");
  for (const bool bias : {true, false}) {
    const Rooted<Linear> layer(engine, "up", 7, 5, bias, 0.5);
    EXPECT_EQ(layer.names().size(), bias ? 2u : 1u);
    expect_close(layer.of(x), naive_linear(to_floats(x), layer.values("up.weight"),
                                           bias ? layer.values("up.bias") : Floats{}, 7));
  }
}

TEST_F(Layers, RotatedHeadsTurnByTheAngleOfTheirPosition) {
  constexpr int64_t batch = 2, length = 5, heads = 3, dim = 4, first = 2;
  const Rooted<Linear> layer(engine, "q", 6, heads * dim, true, 0.5);
  const RopeTable table = make_rope_table(engine.arena, 16, dim, 100.0);
  const Tensor x = engine.random({batch, length, 6}, "x");
  Tape tape(PassContext{});
  const Var y = layer.layer.rotated(tape.constant(x), dim, table, first);
  EXPECT_EQ(y.value.shape(), (Shape{batch, length, heads, dim}));
  Floats expected = naive_linear(to_floats(x), layer.values("q.weight"), layer.values("q.bias"), 6);
  for (int64_t row = 0; row < batch * length; ++row)
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t i = 0; i < dim / 2; ++i) {
        const double angle = static_cast<double>(first + row % length) * std::pow(100.0, -2.0 * i / dim);
        float& a = expected[static_cast<size_t>((row * heads + head) * dim + i)];
        float& b = expected[static_cast<size_t>((row * heads + head) * dim + i + dim / 2)];
        const double was_a = a, was_b = b;
        a = static_cast<float>(was_a * std::cos(angle) - was_b * std::sin(angle));
        b = static_cast<float>(was_a * std::sin(angle) + was_b * std::cos(angle));
      }
  expect_close(to_floats(y.value), expected);
}

TEST_F(Layers, RmsNormDividesByTheRootOfTheMeanSquare) {
  const Rooted<RmsNormLayer> layer(engine, "norm", 9, 0.125);
  const Tensor x = engine.random({4, 9}, "x");
  const Floats w = layer.values("norm.weight"), in = to_floats(x);
  Floats expected(in.size());
  for (size_t n = 0; n < 4; ++n) {
    double square = 0.0;
    for (size_t i = 0; i < 9; ++i) square += std::pow(static_cast<double>(in[9 * n + i]), 2) / 9;
    for (size_t i = 0; i < 9; ++i)
      expected[9 * n + i] = static_cast<float>(in[9 * n + i] / std::sqrt(square + 0.125) * w[i]);
  }
  expect_close(layer.of(x), expected);
}

TEST_F(Layers, LayerNormCentersFirst) {
  const Tensor x = engine.random({4, 9}, "x");
  for (const bool bias : {true, false}) {
    const Rooted<LayerNormLayer> layer(engine, "norm", 9, bias, 0.125);
    const Floats w = layer.values("norm.weight"), b = bias ? layer.values("norm.bias") : Floats(9, 0.0f),
                 in = to_floats(x);
    Floats expected(in.size());
    for (size_t n = 0; n < 4; ++n) {
      double mean = 0.0, variance = 0.0;
      for (size_t i = 0; i < 9; ++i) mean += static_cast<double>(in[9 * n + i]) / 9;
      for (size_t i = 0; i < 9; ++i) variance += std::pow(in[9 * n + i] - mean, 2) / 9;
      for (size_t i = 0; i < 9; ++i)
        expected[9 * n + i] =
            static_cast<float>((in[9 * n + i] - mean) / std::sqrt(variance + 0.125) * w[i] + b[i]);
    }
    expect_close(layer.of(x), expected);
  }
}

TEST_F(Layers, EmbeddingGivesRowsOfItsTable) {
  const Rooted<TokenEmbedding> layer(engine, "embed", 6, 4, 1.0), places(engine, "positions", 8, 4, 1.0);
  const Tensor ids = engine.ids({2, 3}, 6, "ids");
  const Floats rows = layer.values("embed.weight"), at = places.values("positions.weight");
  Tape tape(PassContext{});
  const Floats y = to_floats(embedding(tape, ids, layer.layer.table(), &places.layer.table(), 5).value);
  for (size_t n = 0; n < 6; ++n)
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(y[4 * n + i],
                rows[4 * static_cast<size_t>(ids.data<int32_t>()[n]) + i] + at[4 * (5 + n % 3) + i]);
}

TEST_F(Layers, DropoutIsTheIdentityOutsideTraining) {
  const Rooted<Dropout> layer(engine, "dropout", 0.5);
  const Tensor x = engine.random({4, 64}, "x");
  EXPECT_EQ(layer.of(x), to_floats(x));
}

// Kept elements are 1 / (1 - p) times as large; which ones, depends on the path, the seed, the step and the place in
// the global batch, and on nothing else.
TEST_F(Layers, DropoutDropsByAddress) {
  Module root(nullptr, "");
  const Dropout a(&root, "a", 0.25), b(&root, "b", 0.25), none(&root, "none", 0.0);
  const Tensor x = engine.random({4, 256}, "x");
  const auto run = [&](const Dropout& layer, PassContext context, const Tensor& in) {
    context.dropout = true;
    Tape tape(context);
    return to_floats(layer(tape.constant(in)).value);
  };
  const PassContext pass{.seed = 3, .step = 5, .first_sequence = 2};
  const Floats in = to_floats(x), y = run(a, pass, x);
  int64_t dropped = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i] == 0.0f)
      ++dropped;
    else
      EXPECT_FLOAT_EQ(y[i], in[i] / 0.75f);
  }
  EXPECT_NEAR(static_cast<double>(dropped) / 1024, 0.25, 5 * std::sqrt(0.25 * 0.75 / 1024));
  EXPECT_EQ(run(a, pass, x), y);
  EXPECT_NE(run(b, pass, x), y);
  EXPECT_NE(run(a, {.seed = 4, .step = 5, .first_sequence = 2}, x), y);
  EXPECT_NE(run(a, {.seed = 3, .step = 6, .first_sequence = 2}, x), y);
  // The sequences 4 and 5 alone are dropped as they are within 2 ... 5.
  const Floats tail = run(a, {.seed = 3, .step = 5, .first_sequence = 4}, x.slice(2, 4));
  EXPECT_EQ(tail, Floats(y.begin() + 512, y.end()));
  EXPECT_EQ(run(none, pass, x), in);
}

TEST_F(Layers, AResidualSumIsOneWhetherItDropsOrNot) {
  struct Branch : Module {
    explicit Branch(Module* parent, const std::string& name, double rate)
        : Module(parent, name), linear(this, "linear", 5, 4, true, 0.5), dropout(this, "dropout", rate) {}
    Linear linear;
    Dropout dropout;
  };
  const Tensor x = engine.random({3, 5}, "x"), h = engine.random({3, 4}, "h");
  for (const double rate : {0.0, 0.5}) {
    const Rooted<Branch> root(engine, "branch", rate);
    for (const bool training : {false, true}) {
      Tape tape({.seed = 1, .dropout = training});
      const Branch& branch = root.layer;
      const Floats sum =
          to_floats(add_residual(tape.constant(h), branch.linear, branch.dropout, tape.constant(x)).value);
      EXPECT_EQ(sum, to_floats(add(tape.constant(h), branch.dropout(branch.linear(tape.constant(x)))).value));
      EXPECT_EQ(branch.dropout.drops(tape), training && rate > 0.0);
    }
  }
}

TEST_F(Layers, RopeTableHasAnglesOfPositionAndFrequency) {
  const RopeTable table = make_rope_table(engine.arena, 3, 4, 10000.0);
  EXPECT_EQ(table.cos.shape(), (Shape{3, 2}));
  EXPECT_THAT(to_floats(table.sin),
              ElementsAre(0.0f, 0.0f, std::sin(1.0f), ::testing::FloatEq(std::sin(0.01f)),
                          ::testing::FloatEq(std::sin(2.0f)), ::testing::FloatEq(std::sin(0.02f))));
  EXPECT_FLOAT_EQ(to_floats(table.cos)[4], std::cos(2.0f));
  EXPECT_THROW(make_rope_table(engine.arena, 3, 5, 10000.0), Error);
}

}  // namespace
}  // namespace athanor::tests::layers_test
