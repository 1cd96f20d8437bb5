// Central differences for every differentiable operation, on odd sizes.
#include <gtest/gtest.h>

#include "athanor/autograd/recompute.h"
#include "athanor/nn/rope_table.h"
#include "athanor/ops/ops.h"
#include "support/engine.h"
#include "support/gradient_check.h"

namespace athanor::tests::gradient_test {
namespace {

constexpr double kGradientTolerance = 2e-3;  // of central differences in f32 with eps 1e-2

class GradientTest : public ::testing::Test {
 protected:
  void expect_gradients(std::vector<Tensor> inputs, std::vector<Weight*> weights,
                        const std::function<Var(Tape&, std::span<const Var>)>& function,
                        PassContext context = {}) {
    const GradientReport report =
        check_gradients(std::move(inputs), std::move(weights), function, 1e-2f, std::move(context));
    EXPECT_LT(report.worst, kGradientTolerance) << report.where;
  }
  Engine engine_{2};
};

TEST_F(GradientTest, Linear) {
  const auto w = engine_.param({5, 7}, "w"), b = engine_.param({5}, "b");
  Weight &weight = *w->uses()[0], &bias = *b->uses()[0];
  expect_gradients({engine_.random({2, 3, 7}, "x")}, {&weight, &bias},
                   [&](Tape&, std::span<const Var> x) { return linear(x[0], weight, &bias); });
  expect_gradients({engine_.random({1, 7}, "x")}, {&weight},
                   [&](Tape&, std::span<const Var> x) { return linear(x[0], weight, nullptr); });
  expect_gradients({engine_.random({2, 3, 7}, "x"), engine_.random({2, 3, 5}, "h")}, {&weight, &bias},
                   [&](Tape&, std::span<const Var> x) { return linear_add(x[1], x[0], weight, &bias); });
}

TEST_F(GradientTest, Embedding) {
  const auto table = engine_.param({6, 5}, "table"), positions = engine_.param({9, 5}, "positions");
  Weight &rows = *table->uses()[0], &places = *positions->uses()[0];
  const Tensor ids = engine_.ids({3, 4}, 6, "ids");
  expect_gradients({}, {&rows, &places},
                   [&](Tape& tape, std::span<const Var>) { return embedding(tape, ids, rows, &places, 2); });
}

TEST_F(GradientTest, RmsNorm) {
  const auto w = engine_.param({9}, "w", 1.0f);
  expect_gradients({engine_.random({2, 3, 9}, "x")}, {w->uses()[0].get()},
                   [&](Tape&, std::span<const Var> x) { return rms_norm(x[0], *w->uses()[0], 1e-5f); });
}

TEST_F(GradientTest, LayerNorm) {
  const auto w = engine_.param({9}, "w", 1.0f), b = engine_.param({9}, "b");
  Weight &weight = *w->uses()[0], &bias = *b->uses()[0];
  expect_gradients({engine_.random({2, 35, 9}, "x")}, {&weight, &bias},
                   [&](Tape&, std::span<const Var> x) { return layer_norm(x[0], weight, &bias, 1e-5f); });
  expect_gradients({engine_.random({4, 9}, "x")}, {&weight},
                   [&](Tape&, std::span<const Var> x) { return layer_norm(x[0], weight, nullptr, 1e-5f); });
}

TEST_F(GradientTest, LinearRope) {
  const RopeTable table = make_rope_table(engine_.arena, 8, 6, 10000.0);
  const auto w = engine_.param({18, 7}, "w"), b = engine_.param({18}, "b");
  Weight &weight = *w->uses()[0], &bias = *b->uses()[0];
  for (Weight* some : {&bias, static_cast<Weight*>(nullptr)}) {
    std::vector<Weight*> weights{&weight};
    if (some != nullptr) weights.push_back(some);
    expect_gradients({engine_.random({2, 5, 7}, "x")}, weights, [&](Tape&, std::span<const Var> x) {
      return linear_rope(x[0], weight, some, 6, table.cos, table.sin, 3);
    });
    // Its gradient is another operation's too, and its input's is added to one that is there.
    expect_gradients({engine_.random({2, 5, 18}, "h"), engine_.random({2, 5, 7}, "x")}, weights,
                     [&](Tape&, std::span<const Var> x) {
                       const Var y = linear_rope(x[1], weight, some, 6, table.cos, table.sin, 0);
                       const Var z = linear_rope(x[1], weight, some, 6, table.cos, table.sin, 2);
                       return add(x[0], view(add(y, z), {2, 5, 18}));
                     });
  }
}

TEST_F(GradientTest, AttentionWithGroupedQueries) {
  for (const int64_t kv_heads : {1, 2, 4})
    expect_gradients({engine_.random({2, 7, 4, 6}, "q"), engine_.random({2, 7, kv_heads, 6}, "k"),
                      engine_.random({2, 7, kv_heads, 6}, "v")},
                     {}, [&](Tape&, std::span<const Var> x) { return attention(x[0], x[1], x[2]); });
}

TEST_F(GradientTest, AttentionOverSeveralTiles) {
  expect_gradients({engine_.random({1, 70, 1, 4}, "q"), engine_.random({1, 70, 1, 4}, "k"),
                    engine_.random({1, 70, 1, 4}, "v")},
                   {}, [&](Tape&, std::span<const Var> x) { return attention(x[0], x[1], x[2]); });
}

TEST_F(GradientTest, AttentionWithTermsOfScores) {
  const auto bias = engine_.param({4, 5}, "bias"), sinks = engine_.param({4}, "sinks");
  const Tensor buckets = engine_.ids({13}, 5, "buckets");
  const PassContext context{.seed = 3, .step = 5, .first_sequence = 2, .dropout = true};
  Weight &table = *bias->uses()[0], &logits = *sinks->uses()[0];
  AttentionTerms terms{.scale = 0.7f, .softcap = 1.5f};
  const auto expect = [&](int64_t value_dim, std::vector<Weight*> weights) {
    expect_gradients(
        {engine_.random({2, 7, 4, 6}, "q"), engine_.random({2, 7, 2, 6}, "k"),
         engine_.random({2, 7, 2, value_dim}, "v")},
        std::move(weights),
        [&](Tape&, std::span<const Var> x) { return attention(x[0], x[1], x[2], {}, terms); }, context);
  };
  expect(6, {});
  terms.bias = &table;
  terms.bucket_of = buckets;
  expect(6, {&table});
  terms.sinks = &logits;
  expect(3, {&table, &logits});
  terms.dropout = 0.3f;
  terms.dropout_stream = 99;
  expect(6, {&table, &logits});
  terms.bias = nullptr;
  terms.fixed_bias = engine_.random({4, 5}, "fixed");
  expect(8, {&logits});
}

// Deferred weights get the gradients of the same pass, and what is made again has the same bits.
TEST_F(GradientTest, TermsOfScoresWithDeferredWeightsAndRecompute) {
  const auto bias = engine_.param({2, 13}, "bias"), sinks = engine_.param({2}, "sinks");
  Weight &table = *bias->uses()[0], &logits = *sinks->uses()[0];
  const AttentionTerms terms{
      .softcap = 2, .bias = &table, .sinks = &logits, .dropout = 0.2f, .dropout_stream = 4};
  const Tensor input = engine_.random({2, 7, 2, 4}, "x"), dy = engine_.random({2, 7, 2, 4}, "dy");
  const auto run = [&](bool again, bool split) {
    Tape tape(PassContext{.seed = 1, .step = 2, .first_sequence = 1, .record = true, .dropout = true});
    table.set_grad(zeros(engine_.arena, {2, 13}, Dtype::f32, Category::gradients));
    logits.set_grad(zeros(engine_.arena, {2}, Dtype::f32, Category::gradients));
    const Var x = tape.leaf(input);
    const auto block = [&](const Var& h) { return attention(h, h, h, {}, terms); };
    const Var y = again ? recompute(x, block) : block(x);
    DeferredWeights deferred;
    tape.backward(y, dy, split ? &deferred : nullptr);
    if (split) deferred.run(0);
    auto all = to_floats(tape.grad(x));
    for (Weight* each : {&table, &logits}) {
      const auto dw = to_floats(each->grad());
      all.insert(all.end(), dw.begin(), dw.end());
    }
    return all;
  };
  const auto plain = run(false, false);
  EXPECT_EQ(plain, run(true, false));
  EXPECT_EQ(plain, run(false, true));
  EXPECT_EQ(plain, run(true, true));
}

TEST_F(GradientTest, Activations) {
  const Tensor a = engine_.random({3, 37}, "a"), b = engine_.random({3, 37}, "b");
  expect_gradients({a, b}, {}, [](Tape&, std::span<const Var> x) { return swiglu(x[0], x[1]); });
  expect_gradients({a}, {}, [](Tape&, std::span<const Var> x) { return gelu(x[0]); });
  expect_gradients({a, b}, {}, [](Tape&, std::span<const Var> x) { return add(x[0], x[1]); });
}

// They write theirs over the gradient that they are given, unless it is another operation's too.
TEST_F(GradientTest, ActivationsUnderLayersAndBesideThem) {
  const auto w = engine_.param({5, 7}, "w");
  Weight& weight = *w->uses()[0];
  const std::vector<Tensor> inputs{engine_.random({3, 7}, "x"), engine_.random({3, 7}, "y"),
                                   engine_.random({3, 7}, "h")};
  expect_gradients(inputs, {&weight}, [&](Tape&, std::span<const Var> x) {
    return linear(add(swiglu(gelu(x[0]), x[1]), x[2]), weight, nullptr);
  });
  expect_gradients(inputs, {&weight}, [&](Tape&, std::span<const Var> x) {
    return linear(add(x[2], gelu(swiglu(x[0], x[1]))), weight, nullptr);
  });
}

TEST_F(GradientTest, DropoutKeepsItsMaskByAddress) {
  const PassContext context{.seed = 3, .step = 5, .first_sequence = 2, .dropout = true};
  expect_gradients(
      {engine_.random({4, 5, 8}, "x")}, {},
      [](Tape&, std::span<const Var> x) { return dropout(x[0], 0.3f, 99); }, context);
}

TEST_F(GradientTest, AValueUsedTwiceAddsBothGradients) {
  const auto w = engine_.param({8, 8}, "w");
  Weight& weight = *w->uses()[0];
  expect_gradients({engine_.random({3, 8}, "x")}, {&weight}, [&](Tape&, std::span<const Var> x) {
    const Var h = add(x[0], linear(x[0], weight, nullptr));  // a residual connection
    return add(h, gelu(h));
  });
}

// Norms and products that meet a gradient which is there already add to it.
TEST_F(GradientTest, ASecondGradientIsAddedWhereItIsMade) {
  const auto q = engine_.param({8, 8}, "q"), k = engine_.param({8, 8}, "k"), n = engine_.param({8}, "n");
  Weight &first = *q->uses()[0], &second = *k->uses()[0], &scale = *n->uses()[0];
  expect_gradients(
      {engine_.random({3, 8}, "x")}, {&first, &second, &scale}, [&](Tape&, std::span<const Var> x) {
        const Var y = rms_norm(x[0], scale, 1e-5f);
        return linear_add(x[0], gelu(add(linear(y, first, nullptr), gelu(linear(y, second, nullptr)))), first,
                          nullptr);
      });
}

TEST_F(GradientTest, RecomputeGivesTheSameBits) {
  const auto w = engine_.param({8, 8}, "w");
  Weight& weight = *w->uses()[0];
  const Tensor input = engine_.random({4, 8}, "x"), dy = engine_.random({4, 8}, "dy");
  const auto block = [&](const Var& x) { return add(x, dropout(gelu(linear(x, weight, nullptr)), 0.2f, 5)); };
  const auto run = [&](bool again, bool split) {
    Tape tape(PassContext{.seed = 1, .step = 2, .first_sequence = 1, .record = true, .dropout = true});
    weight.set_grad(zeros(engine_.arena, {8, 8}, Dtype::f32, Category::gradients));
    const ReadyGradients ready({&weight});
    const Var x = tape.leaf(input);
    const Var y = again ? recompute(x, block) : block(x);
    DeferredWeights deferred;
    tape.backward(y, dy, split ? &deferred : nullptr);
    if (split) {
      EXPECT_EQ(to_floats(weight.grad()), std::vector<float>(64, 0.0f)) << "weights must wait";
      deferred.run(0);
    }
    EXPECT_EQ(ready.uses.size(), 1u);
    auto all = to_floats(tape.grad(x));
    const auto dw = to_floats(weight.grad());
    all.insert(all.end(), dw.begin(), dw.end());
    return all;
  };
  const auto plain = run(false, false);
  EXPECT_EQ(plain, run(true, false));
  EXPECT_EQ(plain, run(false, true));
  EXPECT_EQ(plain, run(true, true));
}

// Norm, activation and attention outputs are forgotten between the passes; a chain of them is made again from its
// start. The last value of the stretch stays, whatever made it.
TEST_F(GradientTest, ForgottenValuesAreMadeAgainWithTheSameBits) {
  const auto w = engine_.param({8, 8}, "w"), norm = engine_.param({8}, "norm");
  Weight &weight = *w->uses()[0], &scale = *norm->uses()[0];
  const Tensor input = engine_.random({2, 4, 8}, "x"), dy = engine_.random({2, 4, 8}, "dy");
  const Shape heads{2, 4, 2, 4};
  const auto run = [&](bool forget, bool split) {
    Tape tape(PassContext{.seed = 1, .step = 2, .record = true, .dropout = true});
    weight.set_grad(zeros(engine_.arena, {8, 8}, Dtype::f32, Category::gradients));
    scale.set_grad(zeros(engine_.arena, {8}, Dtype::f32, Category::gradients));
    const Var x = tape.leaf(input);
    if (forget) tape.begin_selective_recompute();
    Var y;
    {
      const Var n = gelu(rms_norm(x, scale, 1e-5f));
      const Var v = view(linear(n, weight, nullptr), heads);
      const Var o = dropout(view(attention(v, v, v), {2, 4, 8}), 0.2f, 5);
      y = gelu(add(n, swiglu(o, layer_norm(o, scale, nullptr, 1e-5f))));
    }
    const uint64_t before = engine_.arena.usage().current_total;
    if (forget) {
      tape.end_selective_recompute(y);
      EXPECT_LE(engine_.arena.usage().current_total + 4 * input.size_bytes(), before);
    }
    EXPECT_EQ(to_floats(y.value).size(), 64u);
    DeferredWeights deferred;
    tape.backward(y, dy, split ? &deferred : nullptr);
    deferred.run(0);
    auto all = to_floats(tape.grad(x));
    for (Weight* each : {&weight, &scale}) {
      const auto dw = to_floats(each->grad());
      all.insert(all.end(), dw.begin(), dw.end());
    }
    return all;
  };
  const auto plain = run(false, false);
  EXPECT_EQ(plain, run(true, false));
  EXPECT_EQ(plain, run(false, true));
  EXPECT_EQ(plain, run(true, true));
}

// The checker itself must see a backward pass that is not the forward pass's.
TEST_F(GradientTest, AWrongGradientIsCaught) {
  const Tensor x = engine_.random({4, 16}, "x");
  const auto report = check_gradients({x}, {}, [&](Tape& tape, std::span<const Var> vars) {
    return tape.recording() ? gelu(vars[0]) : add(gelu(vars[0]), vars[0]);
  });
  EXPECT_GT(report.worst, 0.1);
}

}  // namespace
}  // namespace athanor::tests::gradient_test
