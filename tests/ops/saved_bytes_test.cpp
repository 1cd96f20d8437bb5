// How many bytes each operation keeps for its backward pass, by hand: B sequences of S tokens (N = B S), H heads of D
// and K of keys, width C = H D, hidden width F, E experts of which a token takes 2; T bytes an element. Plans and
// measured peaks come from the same code, so neither of them would tell that an operation keeps a tensor more.
#include <gtest/gtest.h>

#include <functional>

#include "athanor/autograd/recompute.h"
#include "athanor/nn/rope_table.h"
#include "athanor/ops/moe.h"
#include "athanor/ops/ops.h"
#include "support/engine.h"

namespace athanor::tests::saved_bytes_test {
namespace {

// All tensors below are whole multiples of the 64 bytes in which the arena counts.
constexpr int64_t B = 2, S = 16, H = 4, K = 2, D = 8, C = H * D, F = 64, V = 48, N = B * S, E = 16, R = 2 * N;
constexpr int64_t kFloat = 4, kInt = 4;

class SavedBytes : public ::testing::TestWithParam<Dtype> {
 protected:
  // What a tape holds of the operations once their inputs and results are gone.
  int64_t held(const std::function<void(Tape& tape)>& operations, PassContext context = {}) {
    const auto in_use = [&] {
      return static_cast<int64_t>(engine.arena.usage().current[static_cast<size_t>(Category::activations)]);
    };
    const int64_t before = in_use();
    context.record = true;
    Tape tape(context);
    context = {};
    operations(tape);
    return in_use() - before;
  }
  Var input(Tape& tape, const Shape& shape) {
    return tape.leaf(engine.random(shape, "x" + std::to_string(num_inputs++), 1.0f, dtype));
  }
  Weight& weight(const Shape& shape) {
    params.push_back(engine.param(shape, "w" + std::to_string(params.size()), 0.5f, dtype));
    Weight& use = *params.back()->uses()[0];
    use.set_grad(zeros(engine.arena, shape, Dtype::f32, Category::gradients));
    return use;
  }
  std::shared_ptr<const Routing> routing() {
    Tape quiet(PassContext{});
    const Var logits = quiet.constant(engine.random({N, E}, "logits"));
    return route(logits, nullptr, {.router = {}, .experts_per_token = 2}).routing;
  }

  const Dtype dtype = GetParam();
  const int64_t T = static_cast<int64_t>(size_of(dtype));
  Engine engine;
  std::vector<std::unique_ptr<Param>> params;
  int num_inputs = 0;
};
INSTANTIATE_TEST_SUITE_P(All, SavedBytes, ::testing::Values(Dtype::f32, Dtype::bf16),
                         [](const auto& each) { return std::string(name_of(each.param)); });

TEST_P(SavedBytes, EmbeddingKeepsIds) {
  Weight &table = weight({V, C}), &positions = weight({S, C});
  EXPECT_EQ(held([&](Tape& tape) {
              embedding(tape, engine.ids({B, S}, V, "ids"), table, &positions, 0);
            }),
            N * kInt);
}

TEST_P(SavedBytes, LinearKeepsItsInput) {
  Weight &w = weight({F, C}), &bias = weight({F});
  EXPECT_EQ(held([&](Tape& tape) { linear(input(tape, {B, S, C}), w, &bias); }), N * C * T);
}

// The gradient of h is that of the result.
TEST_P(SavedBytes, LinearAddKeepsTheInputOfTheProductAlone) {
  Weight& w = weight({F, C});
  EXPECT_EQ(held([&](Tape& tape) {
              linear_add(input(tape, {B, S, F}), input(tape, {B, S, C}), w, nullptr);
            }),
            N * C * T);
}

// Its tables are the model's, and rotating back needs no value.
TEST_P(SavedBytes, LinearRopeKeepsItsInput) {
  Weight& w = weight({H * D, C});
  const RopeTable table = make_rope_table(engine.arena, S, D, 10000.0);
  EXPECT_EQ(held([&](Tape& tape) {
              linear_rope(input(tape, {B, S, C}), w, nullptr, D, table.cos, table.sin, 0);
            }),
            N * C * T);
}

TEST_P(SavedBytes, RmsNormKeepsItsInputAndANumberPerToken) {
  Weight& w = weight({C});
  EXPECT_EQ(held([&](Tape& tape) { rms_norm(input(tape, {B, S, C}), w, 1e-5f); }), N * C * T + N * kFloat);
}

TEST_P(SavedBytes, LayerNormKeepsItsInputAndTwoNumbersPerToken) {
  Weight &w = weight({C}), &bias = weight({C});
  EXPECT_EQ(held([&](Tape& tape) {
              layer_norm(input(tape, {B, S, C}), w, &bias, 1e-5f);
            }),
            N * C * T + 2 * N * kFloat);
}

// q and o of all heads, k and v of theirs, the log of the sum of each row's exponentials; never the scores [B,H,S,S].
TEST_P(SavedBytes, AttentionKeepsQueriesKeysValuesResultAndANumberPerRow) {
  const auto attend = [&](Tape& tape) {
    attention(input(tape, {B, S, H, D}), input(tape, {B, S, K, D}), input(tape, {B, S, K, D}));
  };
  const int64_t expected = 2 * N * H * D * T + 2 * N * K * D * T + B * H * S * kFloat;
  EXPECT_EQ(held(attend), expected);
  // Where documents are told apart, where each token's begins: the pass has it, and all its layers share it.
  PassContext documents;
  documents.document_starts = zeros(engine.arena, {B, S}, Dtype::i32, Category::activations);
  EXPECT_EQ(held(attend, documents), expected);
}

TEST_P(SavedBytes, SwigluKeepsBothInputs) {
  EXPECT_EQ(held([&](Tape& tape) { swiglu(input(tape, {B, S, F}), input(tape, {B, S, F})); }), 2 * N * F * T);
}

TEST_P(SavedBytes, GeluKeepsItsInput) {
  EXPECT_EQ(held([&](Tape& tape) { gelu(input(tape, {B, S, F})); }), N * F * T);
}

// The mask has an address (law 2); the gradients of a sum and of another shape need no value.
TEST_P(SavedBytes, DropoutAddAndViewKeepNothing) {
  const PassContext training{.num_sequences = B, .seq_len = S, .dropout = true};
  EXPECT_EQ(held([&](Tape& tape) { dropout(input(tape, {B, S, C}), 0.1f, 7); }, training), 0);
  EXPECT_EQ(held([&](Tape& tape) { add(input(tape, {B, S, C}), input(tape, {B, S, C})); }), 0);
  EXPECT_EQ(held([&](Tape& tape) { view(input(tape, {B, S, C}), {N, C}); }), 0);
}

// The gradient of its input, made with the loss: neither the input nor logits [N,V].
TEST_P(SavedBytes, LinearCrossEntropyKeepsTheGradientOfItsInput) {
  Weight& head = weight({V, C});
  EXPECT_EQ(
      held([&](Tape& tape) {
        linear_cross_entropy(input(tape, {B, S, C}), head, nullptr, engine.ids({B, S}, V, "targets"), V);
      }),
      N * C * T);
}

TEST_P(SavedBytes, RouterLogitsKeepTheirInput) {
  Weight& gate = weight({E, C});
  EXPECT_EQ(held([&](Tape& tape) { router_logits(input(tape, {B, S, C}), gate); }), N * C * T);
}

// Logits, chosen experts, a number per token and the share of each expert, all f32 or i32.
TEST_P(SavedBytes, RouteKeepsLogitsChoicesAndShares) {
  EXPECT_EQ(
      held([&](Tape& tape) {
        route(tape.leaf(engine.random({N, E}, "logits")), nullptr, {.router = {}, .experts_per_token = 2});
      }),
      N * E * kFloat + 2 * N * kInt + N * kFloat + E * kFloat);
}

// Who goes where: experts and places of each choice, the token of each row. Not x: rows are copies of it.
TEST_P(SavedBytes, DispatchKeepsTheRouting) {
  EXPECT_EQ(held([&](Tape& tape) { dispatch(input(tape, {B, S, C}), routing()); }), 3 * R * kInt);
}

TEST_P(SavedBytes, ExpertLinearKeepsItsRows) {
  Weight& stack = weight({E, F, C});
  const std::vector<int64_t> counts(E, R / E);
  EXPECT_EQ(held([&](Tape& tape) { expert_linear(input(tape, {R, C}), stack, counts); }), R * C * T);
}

TEST_P(SavedBytes, CombineKeepsRowsWeightsAndTheRouting) {
  EXPECT_EQ(held([&](Tape& tape) {
              combine(input(tape, {R, C}), tape.leaf(engine.random({N, 2}, "weights")), routing(), {B, S, C});
            }),
            R * C * T + 2 * N * kFloat + 3 * R * kInt);
}

TEST_P(SavedBytes, RecomputeKeepsTheInputOfItsBlock) {
  Weight& w = weight({F, C});
  EXPECT_EQ(held([&](Tape& tape) {
              recompute(input(tape, {B, S, C}), [&](const Var& x) { return gelu(linear(x, w, nullptr)); });
            }),
            N * C * T);
}

}  // namespace
}  // namespace athanor::tests::saved_bytes_test
