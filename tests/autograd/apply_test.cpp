// apply<Op>: which parts of an operation are used when.
#include "athanor/autograd/apply.h"

#include <gmock/gmock.h>

#include "autograd/small_ops.h"

namespace athanor::tests::apply_test {
namespace {

using ::testing::ElementsAre;

// Square that can add its gradient to one that is there.
struct SquareOnto : Square {
  static inline int added = 0;
  static Tensor backward_input_onto(const Saved& saved, const Tensor& dy, const Tensor& base) {
    ++added;
    const Tensor dx = backward_input(saved, dy)[0];
    return mapped(dy, [&](int64_t i) { return base.data<float>()[i] + dx.data<float>()[i]; });
  }
};

// Weighted whose backward makes both gradients in one pass.
struct WeightedAtOnce : Weighted {
  static Tensor backward(const Saved& saved, const Tensor& dy, const Tensor* base) {
    parts.push_back(base == nullptr ? "both" : "both onto");
    Tensor& sum = saved.weight->grad();
    const Tensor& w = saved.weight->value();
    return mapped(dy, [&](int64_t i) {
      sum.data<float>()[i] += saved.x.data<float>()[i] * dy.data<float>()[i];
      return (base == nullptr ? 0.0f : base->data<float>()[i]) + w.data<float>()[i] * dy.data<float>()[i];
    });
  }
  static Tensor backward_input_onto(const Saved& saved, const Tensor& dy, const Tensor& base) {
    const Tensor dx = backward_input(saved, dy)[0];
    return mapped(dy, [&](int64_t i) { return base.data<float>()[i] + dx.data<float>()[i]; });
  }
};

// An operation whose weight may be missing, and whose two parts take the gradient negated.
struct Negated {
  struct Saved {
    Weight* weight;
  };
  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& x, Weight* weight) {
    saved = {weight};
    const auto step = static_cast<float>(context.step);
    return mapped(x, [&](int64_t i) { return step - x.data<float>()[i]; });
  }
  static Tensor begin_backward(const Saved&, Tensor dy) {
    return mapped(dy, [&](int64_t i) { return -dy.data<float>()[i]; });
  }
  static std::array<Tensor, 1> backward_input(const Saved&, const Tensor& dy) { return {dy}; }
  static void backward_weight(const Saved& saved, const Tensor& dy) {
    if (saved.weight != nullptr) saved.weight->grad().data<float>()[0] += dy.data<float>()[0];
  }
};

TEST_F(TapeTest, ASecondGradientIsAddedWhereItIsMade) {
  SquareOnto::added = 0;
  Tape tape({.record = true});
  const Var x = tape.leaf(values({3.0f}));
  const Var y = apply<SquareOnto>(tape, x), z = apply<SquareOnto>(tape, x);
  tape.backward(apply<AddScaled>(tape, y, z, 2.0f), values({1.0f}));
  EXPECT_EQ(SquareOnto::added, 1);  // the first has nothing to add to
  EXPECT_THAT(to_floats(tape.grad(x)), ElementsAre(18.0f));
}

TEST_F(TapeTest, BothPartsInOnePassWhereNothingIsDeferred) {
  Weight& w = weight("w", {4.0f});
  const auto run = [&](DeferredWeights* deferred) {
    Weighted::parts.clear();
    w.set_grad(zeros(engine.arena, {1}, Dtype::f32, Category::gradients));
    Tape tape({.record = true});
    const ReadyGradients ready({&w});
    const Var x = tape.leaf(values({3.0f}));
    const Var y = apply<WeightedAtOnce>(tape, x, w);
    tape.backward(apply<AddScaled>(tape, x, y, 1.0f), values({1.0f}), deferred);
    if (deferred != nullptr) deferred->run(0);
    EXPECT_EQ(ready.uses.size(), 1u);
    EXPECT_THAT(to_floats(tape.grad(x)), ElementsAre(5.0f));
    EXPECT_THAT(to_floats(w.grad()), ElementsAre(3.0f));
  };
  run(nullptr);
  EXPECT_THAT(Weighted::parts, ElementsAre("both onto"));
  DeferredWeights deferred;
  run(&deferred);
  EXPECT_THAT(Weighted::parts, ElementsAre("input of w", "weight w"));
}

TEST_F(TapeTest, ForwardSeesThePassAndBackwardBeginsOnce) {
  Weight& w = weight("w", {0.0f});
  Tape tape({.step = 10, .record = true});
  const ReadyGradients ready({&w});
  const Var x = tape.leaf(values({3.0f}));
  const Var y = apply<Negated>(tape, x, &w);
  EXPECT_THAT(to_floats(y.value), ElementsAre(7.0f));
  const Var z = apply<Negated>(tape, y, static_cast<Weight*>(nullptr));  // has no weight to tell of
  tape.backward(z, values({2.0f}));
  EXPECT_THAT(to_floats(tape.grad(x)), ElementsAre(2.0f));  // negated twice
  EXPECT_THAT(to_floats(w.grad()), ElementsAre(2.0f));
  EXPECT_THAT(ready.uses, ElementsAre(w.use()));
}

// A weight alone asks for a gradient, as in an embedding.
TEST_F(TapeTest, AnOperationOnAConstantIsRecordedForItsWeight) {
  Weight& w = weight("w", {4.0f});
  Tape tape({.record = true});
  tape.backward(apply<Weighted>(tape, tape.constant(values({3.0f})), w), values({1.0f}));
  EXPECT_THAT(to_floats(w.grad()), ElementsAre(3.0f));
}

}  // namespace
}  // namespace athanor::tests::apply_test
