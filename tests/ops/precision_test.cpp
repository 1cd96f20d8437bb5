// Every operation in bf16 and f16 against itself in f32: forward values and all gradients, within the
// rounding of the format.
#include <gtest/gtest.h>

#include <cmath>

#include "athanor/nn/rope_table.h"
#include "athanor/ops/ops.h"
#include "support/engine.h"

namespace athanor::tests::precision_test {
namespace {

// Runs a small block made of all operations and returns the output and the gradients.
std::vector<std::vector<float>> run(Engine& engine, Dtype dtype, bool llama) {
  const auto make = [&](const Shape& shape, const char* name, float std) {
    return engine.param(shape, name, std, dtype);
  };
  const auto norm = make({16}, "norm", 1.0f), bias = make({16}, "bias", 0.3f), q = make({16, 16}, "q", 0.3f),
             k = make({8, 16}, "k", 0.3f), v = make({8, 16}, "v", 0.3f), gate = make({24, 16}, "gate", 0.3f),
             up = make({24, 16}, "up", 0.3f), down = make({16, 24}, "down", 0.3f),
             table = make({13, 16}, "table", 1.0f);
  std::vector<Param*> params = {norm.get(), bias.get(), q.get(),    k.get(),    v.get(),
                                gate.get(), up.get(),   down.get(), table.get()};
  for (Param* param : params)
    param->uses()[0]->set_grad(zeros(engine.arena, param->shape(), Dtype::f32, Category::gradients));
  const RopeTable angles = make_rope_table(engine.arena, 8, 4, 10000.0);
  Tape tape(PassContext{.seed = 1, .step = 1, .record = true, .dropout = true});
  Var x = embedding(tape, engine.ids({2, 7}, 13, "ids"), *table->uses()[0], nullptr, 0);
  const Var n = llama ? rms_norm(x, *norm->uses()[0], 1e-5f)
                      : layer_norm(x, *norm->uses()[0], bias->uses()[0].get(), 1e-5f);
  const auto heads = [&](const auto& w, Weight* shift, int64_t count) {
    return llama ? linear_rope(n, *w->uses()[0], shift, 4, angles.cos, angles.sin, 1)
                 : view(linear(n, *w->uses()[0], shift), {2, 7, count, 4});
  };
  const Var qh = heads(q, bias->uses()[0].get(), 4), kh = heads(k, nullptr, 2);
  const Var vh = view(linear(n, *v->uses()[0], nullptr), {2, 7, 2, 4});
  x = add(x, dropout(view(attention(qh, kh, vh), {2, 7, 16}), 0.2f, 7));
  const Var g = linear(x, *gate->uses()[0], nullptr);
  x = add(x,
          linear(llama ? swiglu(g, linear(x, *up->uses()[0], nullptr)) : gelu(g), *down->uses()[0], nullptr));
  Tensor dy = engine.random(x.value.shape(), "dy", 1.0f, dtype);
  tape.backward(x, dy);
  std::vector<std::vector<float>> out = {to_floats(x.value)};
  for (Param* param : params)
    if (llama || param != up.get()) out.push_back(to_floats(param->uses()[0]->grad()));  // gpt2 has no up
  return out;
}

double relative_to_exact(const std::vector<float>& got, const std::vector<float>& expected) {
  double gap = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    gap += std::pow(double(got[i]) - double(expected[i]), 2);
    norm += std::pow(double(expected[i]), 2);
  }
  return std::sqrt(gap / std::max(norm, 1e-30));
}

TEST(Precision, HalfFormatsFollowF32) {
  Engine engine(2);
  for (const bool llama : {false, true}) {
    const auto exact = run(engine, Dtype::f32, llama);
    for (const auto& [dtype, tolerance] : {std::pair{Dtype::bf16, 4e-2}, std::pair{Dtype::f16, 5e-3}}) {
      const auto rounded = run(engine, dtype, llama);
      ASSERT_EQ(rounded.size(), exact.size());
      for (size_t i = 0; i < exact.size(); ++i)
        EXPECT_LT(relative_to_exact(rounded[i], exact[i]), tolerance)
            << name_of(dtype) << " tensor " << i << (llama ? " llama" : "");
    }
  }
}

TEST(Precision, ResultsDoNotDependOnThreadsOrRuns) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Engine one(1), three(3);
    EXPECT_EQ(run(one, dtype, true), run(three, dtype, true));
    EXPECT_EQ(run(one, dtype, false), run(one, dtype, false));
  }
}

}  // namespace
}  // namespace athanor::tests::precision_test
