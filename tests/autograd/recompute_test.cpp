// What is forgotten in the forward pass and made again in the backward pass: whole blocks, and cheap values one by one.
#include "athanor/autograd/recompute.h"

#include <gmock/gmock.h>

#include "autograd/small_ops.h"

namespace athanor::tests::recompute_test {
namespace {

using ::testing::ElementsAre;

struct Gradients {
  std::vector<float> of_x, of_w;
  bool operator==(const Gradients&) const = default;
};

TEST_F(TapeTest, ARecomputedBlockRunsTwiceAndGivesTheSameBits) {
  Weight& w = weight("w", {2.0f, 0.3f});
  int runs = 0;
  const auto block = [&](const Var& x) {
    ++runs;
    return apply<Square>(*x.tape, apply<Weighted>(*x.tape, apply<Square>(*x.tape, x), w));
  };
  const auto gradients = [&](bool again, bool defers) {
    w.set_grad(zeros(engine.arena, {2}, Dtype::f32, Category::gradients));
    Tape tape({.record = true});
    const Var x = tape.leaf(values({1.1f, -0.7f}));
    DeferredWeights deferred;
    tape.backward(again ? recompute(x, block) : block(x), values({1.0f, 0.25f}),
                  defers ? &deferred : nullptr);
    if (defers) deferred.run({});
    return Gradients{to_floats(tape.grad(x)), to_floats(w.grad())};
  };
  const Gradients kept = gradients(false, false);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(gradients(true, false), kept);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(gradients(true, true), kept);
}

TEST_F(TapeTest, ARecomputedBlockKeepsItsInputAlone) {
  const uint64_t before = activation_bytes();
  Tape tape({.record = true});
  Var x = tape.leaf(values({2.0f}));
  for (int i = 0; i < 2; ++i)
    x = recompute(x, [](const Var& in) {
      return apply<Square>(*in.tape, apply<Square>(*in.tape, apply<Square>(*in.tape, in)));
    });
  x.value = {};
  EXPECT_EQ((activation_bytes() - before) / 64, 2u);
}

TEST_F(TapeTest, WithoutRecordingABlockRunsOnce) {
  int runs = 0;
  Tape tape({.record = false});
  recompute(tape.leaf(values({2.0f})), [&](const Var& x) {
    ++runs;
    return apply<Square>(*x.tape, x);
  });
  EXPECT_EQ(runs, 1);
}

// Of three squares in a row the two in between are forgotten; the last one is the result and stays.
TEST_F(TapeTest, CheapValuesAreForgottenAndMadeAgain) {
  const uint64_t before = activation_bytes();
  const auto run = [&](bool forgets) {
    Tape tape({.record = true});
    const Var x = tape.leaf(values({1.1f, -0.7f}));
    if (forgets) tape.begin_selective_recompute();
    Var y = apply<Square>(tape, apply<Square>(tape, apply<Square>(tape, x)));
    if (forgets) tape.end_selective_recompute(y);
    EXPECT_EQ((activation_bytes() - before) / 64, forgets ? 2u : 4u);  // x, y and what is between them
    const int once = Square::forwards;
    tape.backward(y, values({1.0f, 3.0f}));
    EXPECT_EQ(Square::forwards - once, forgets ? 2 : 0);  // each of them once
    return to_floats(tape.grad(x));
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_F(TapeTest, ARecomputedValueRestoresItsInputsFirst) {
  const Tensor x = values({3.0f});
  Tensor y = mapped(x, [&](int64_t i) { return x.data<float>()[i] + 1.0f; });
  const auto of_y = std::make_shared<RecomputedValue>(
      y, [&] { return mapped(x, [&](int64_t i) { return x.data<float>()[i] + 1.0f; }); },
      std::vector<std::shared_ptr<Restorable>>{});
  Tensor z = mapped(y, [&](int64_t i) { return 10.0f * y.data<float>()[i]; });
  const auto of_z = std::make_shared<RecomputedValue>(
      z, [&] { return mapped(y, [&](int64_t i) { return 10.0f * y.data<float>()[i]; }); },
      std::vector<std::shared_ptr<Restorable>>{of_y});
  EXPECT_TRUE(of_y->is(y));
  EXPECT_FALSE(of_y->is(z));
  of_y->release();
  of_z->release();
  EXPECT_THROW(z.raw(), Error);
  of_z->restore();
  EXPECT_THAT(to_floats(z), ElementsAre(40.0f));
  EXPECT_THAT(to_floats(y), ElementsAre(4.0f));
  z = {};
  of_z->restore();  // nobody needs it any more
}

}  // namespace
}  // namespace athanor::tests::recompute_test
