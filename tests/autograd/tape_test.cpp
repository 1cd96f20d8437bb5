// The tape: what it records, in which order it walks, what it adds up, what it frees.
#include "athanor/autograd/tape.h"

#include <gmock/gmock.h>

#include <array>

#include "autograd/small_ops.h"

namespace athanor::tests::tape_test {
namespace {

using ::testing::ElementsAre;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(TapeTest, TheGradientOfAChainIsTheProductOfItsSlopes) {
  Tape tape({.record = true});
  const Var x = tape.leaf(values({1.0f, -2.0f, 3.0f}));
  tape.backward(apply<Square>(tape, apply<Square>(tape, x)), values({1.0f, 1.0f, 10.0f}));
  EXPECT_THAT(to_floats(tape.grad(x)), ElementsAre(4.0f, -32.0f, 1080.0f));  // 4 x^3 dy
}

// Before each of two operations, forward and backward; what it throws ends the pass.
TEST_F(TapeTest, APassIsAskedBetweenOperations) {
  int asked = 0, last = 4;
  const std::function<void()> ask = [&] {
    if (++asked > last) fail("nobody needs it");
  };
  const auto run = [&] {
    Tape tape({.record = true, .between_operations = &ask});
    const Var y = apply<Square>(tape, apply<Square>(tape, tape.leaf(values({3.0f}))));
    tape.backward(y, values({1.0f}));
  };
  run();
  EXPECT_EQ(asked, 4);
  for (last = 0; last < 4; ++last) {
    asked = 0;
    EXPECT_EQ(error_of(run), "nobody needs it");
    EXPECT_EQ(asked, last + 1);
  }
}

TEST_F(TapeTest, AValueUsedTwiceGetsTheSumOfItsGradients) {
  Tape tape({.record = true});
  const Var x = tape.leaf(values({3.0f}));
  tape.backward(apply<AddScaled>(tape, apply<Square>(tape, x), apply<Square>(tape, x), 5.0f), values({2.0f}));
  EXPECT_THAT(to_floats(tape.grad(x)), ElementsAre(72.0f));  // 2 (6 + 5 . 6)
}

// A root that an earlier root's operations use, and a leaf that is a root: what is given comes first in the sum.
TEST_F(TapeTest, SeveralRootsEachGiveAGradient) {
  Tape tape({.record = true});
  const Var x = tape.leaf(values({3.0f}));
  const Var y = apply<Square>(tape, x), z = apply<Square>(tape, y);
  const Tensor dx = values({100.0f}), dy = values({10.0f}), dz = values({1.0f});
  tape.backward(std::array{x, y, z}, {dx, dy, dz});
  EXPECT_THAT(to_floats(tape.grad(x)), ElementsAre(100.0f + 6.0f * (10.0f + 2.0f * 9.0f)));
  EXPECT_THAT(to_floats(dx), ElementsAre(100.0f));  // the caller's are not overwritten
  EXPECT_THAT(to_floats(dy), ElementsAre(10.0f));
  EXPECT_THAT(error_of([&] {
                tape.backward(std::array{x, y}, {dx});
              }),
              ::testing::HasSubstr("got 1 gradients for 2 roots"));
}

TEST_F(TapeTest, WhatIsGivenComesFirstInASum) {
  Tape tape({.record = true});
  const Var x = tape.leaf(values({1.0f}));
  const Var y = apply<AddScaled>(tape, x, x, 1.0f);  // two gradients of x, each 2^-24: lost one by one in 1
  const float tiny = 0x1p-24f;
  tape.backward(std::array{y, x}, {values({tiny}), values({1.0f})});
  EXPECT_THAT(to_floats(tape.grad(x)), ElementsAre(1.0f));
}

// Both inputs of a sum are handed the same tensor: what is added to one of them must not show in the other.
TEST_F(TapeTest, ASharedGradientIsNotAddedToInPlace) {
  Tape tape({.record = true});
  const Var a = tape.leaf(values({1.0f})), b = tape.leaf(values({1.0f}));
  const Var sum = apply<AddScaled>(tape, a, b, 1.0f);
  const Tensor dy = values({7.0f});
  tape.backward(apply<AddScaled>(tape, sum, a, 3.0f), dy);
  EXPECT_THAT(to_floats(tape.grad(a)), ElementsAre(28.0f));
  EXPECT_THAT(to_floats(tape.grad(b)), ElementsAre(7.0f));
  EXPECT_THAT(to_floats(dy), ElementsAre(7.0f));
}

TEST_F(TapeTest, WeightsComeFromTheLastToTheFirstAndBeforeTheirInputs) {
  Weight &first = weight("first", {2.0f}), &second = weight("second", {3.0f});
  Tape tape({.micro_batch = 3, .record = true});
  ReadyGradients ready({&first, &second});
  const Var x = tape.leaf(values({5.0f}));
  tape.backward(apply<Weighted>(tape, apply<Weighted>(tape, x, first), second), values({1.0f}));
  EXPECT_THAT(Weighted::parts,
              ElementsAre("weight second", "input of second", "weight first", "input of first"));
  EXPECT_THAT(ready.uses, ElementsAre("second", "first"));
  EXPECT_THAT(ready.micro_batches, ElementsAre(3, 3));
  EXPECT_THAT(to_floats(second.grad()), ElementsAre(10.0f));
  EXPECT_THAT(to_floats(first.grad()), ElementsAre(15.0f));
  EXPECT_THAT(to_floats(tape.grad(x)), ElementsAre(6.0f));
}

TEST_F(TapeTest, DeferredWeightsRunLaterInTheSameOrderToTheSameBits) {
  Weight &first = weight("first", {2.0f}), &second = weight("second", {3.0f});
  Tape tape({.record = true});
  ReadyGradients ready({&first, &second});
  const Var x = tape.leaf(values({5.0f}));
  DeferredWeights deferred;
  tape.backward(apply<Weighted>(tape, apply<Weighted>(tape, x, first), second), values({1.0f}), &deferred);
  EXPECT_THAT(Weighted::parts, ElementsAre("input of second", "input of first"));
  EXPECT_FALSE(deferred.empty());
  Weighted::parts.clear();
  EXPECT_THAT(ready.uses, ElementsAre());
  deferred.run(3);
  EXPECT_THAT(Weighted::parts, ElementsAre("weight second", "weight first"));
  EXPECT_THAT(ready.uses, ElementsAre("second", "first"));
  EXPECT_THAT(ready.micro_batches, ElementsAre(3, 3));
  EXPECT_TRUE(deferred.empty());
  EXPECT_THAT(to_floats(second.grad()), ElementsAre(10.0f));
  EXPECT_THAT(to_floats(first.grad()), ElementsAre(15.0f));
}

// A tensor of 64 bytes each: of three squares the tape keeps their inputs, and each goes as soon as its backward has
// run.
TEST_F(TapeTest, WhatANodeSavedIsFreedWhenItsBackwardHasRun) {
  Weight& w = weight("w", {1.0f});
  const uint64_t before = activation_bytes();
  Tape tape({.record = true});
  std::vector<uint64_t> held;
  const ReadyGradients ready({&w}, [&] { held.push_back((activation_bytes() - before) / 64); });
  Var x = tape.leaf(values({1.0f}));
  for (int i = 0; i < 3; ++i) x = apply<Weighted>(tape, x, w);
  const Tensor result = std::exchange(x.value, {});
  EXPECT_EQ((activation_bytes() - before) / 64, 4u);  // three inputs and the result
  tape.backward(x, values({1.0f}));
  EXPECT_THAT(held, ElementsAre(5, 4, 3));  // the gradient beside the result and the inputs that are left
}

TEST_F(TapeTest, WithoutRecordingNothingIsKept) {
  const uint64_t before = activation_bytes();
  Tape tape({.record = false});
  const Var y = apply<Square>(tape, apply<Square>(tape, tape.leaf(values({2.0f}))));
  EXPECT_EQ(y.node, -1);
  EXPECT_EQ(activation_bytes() - before, 64u);  // y itself
}

// Constants want no gradient, and neither does what is made of nothing else.
TEST_F(TapeTest, OfConstantsNothingIsKept) {
  Tape tape({.record = true});
  const Var c = tape.constant(values({2.0f}));
  EXPECT_EQ(apply<Square>(tape, c).node, -1);
  const Var x = tape.leaf(values({3.0f}));
  tape.backward(apply<AddScaled>(tape, c, x, 4.0f), values({1.0f}));
  EXPECT_THAT(to_floats(tape.grad(x)), ElementsAre(4.0f));
}

TEST_F(TapeTest, TheGradientOfARootThatIsALeafIsWhatWasGiven) {
  Tape tape({.record = true});
  const Var x = tape.leaf(values({3.0f}));
  tape.backward(x, values({9.0f}));
  EXPECT_THAT(to_floats(tape.grad(x)), ElementsAre(9.0f));
}

TEST_F(TapeTest, MisuseIsNamed) {
  Tape tape({.record = true}), other({.record = true});
  const Var x = tape.leaf(values({3.0f})), y = apply<Square>(tape, x);
  EXPECT_THAT(error_of([&] { other.backward(y, values({1.0f})); }), ::testing::HasSubstr("not on this tape"));
  EXPECT_THAT(error_of([&] { tape.backward(tape.constant(values({1.0f})), values({1.0f})); }),
              ::testing::HasSubstr("was it recorded?"));
  EXPECT_THAT(error_of([&] { static_cast<void>(other.grad(x)); }),
              ::testing::HasSubstr("no leaf of this tape"));
  tape.backward(y, values({1.0f}));
  EXPECT_THAT(error_of([&] { tape.backward(y); }), ::testing::HasSubstr("was walked already"));
}

}  // namespace
}  // namespace athanor::tests::tape_test
