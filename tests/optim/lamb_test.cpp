// LAMB against its formula in double, with the state that the formula leaves behind, and ratios of logical tensors.
#include "athanor/optim/lamb.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/engine.h"

namespace athanor::tests::lamb_test {
namespace {

using Doubles = std::vector<double>;

struct Reference {
  Doubles w, m, v;
  size_t tensors;  // of equal size, one after the other
  double decay;

  void step(const std::vector<float>& grads, int64_t t, double lr, bool corrects) {
    const double c1 = corrects ? 1 - std::pow(0.9, t) : 1, c2 = corrects ? 1 - std::pow(0.99, t) : 1;
    const size_t each = w.size() / tensors;
    for (size_t first = 0; first < w.size(); first += each) {
      Doubles r(each);
      double weight = 0, update = 0;
      for (size_t i = 0; i < each; ++i) {
        const size_t at = first + i;
        const double g = double(grads[at]);
        m[at] = 0.9 * m[at] + 0.1 * g;
        v[at] = 0.99 * v[at] + 0.01 * g * g;
        r[i] = (m[at] / c1) / (std::sqrt(v[at] / c2) + 1e-6) + decay * w[at];
        weight += w[at] * w[at];
        update += r[i] * r[i];
      }
      const double ratio = weight > 0 && update > 0 ? std::sqrt(weight / update) : 1;
      for (size_t i = 0; i < each; ++i) w[first + i] -= lr * ratio * r[i];
    }
  }
};

struct Made {
  Shape shape;
  Init init;
  int64_t tensors;
};

class LambTest : public testing::TestWithParam<bool> {};

// A matrix, a vector, a stack of experts whose size is no multiple of a norm block, and weights that begin at zero.
TEST_P(LambTest, FollowsItsFormula) {
  const bool corrects = GetParam();
  Engine engine{2};
  std::vector<std::unique_ptr<Param>> params;
  std::vector<Reference> expected;
  for (const Made& made : {Made{{50, 70}, Init::normal(0.5), 1},
                           {{9}, Init::normal(0.5), 1},
                           {{3, 10, 31}, Init::normal(0.3), 3},
                           {{7, 5}, Init::zeros(), 1}}) {
    params.push_back(std::make_unique<Param>(fmt::format("p{}", params.size()), made.shape, made.init));
    params.back()->allocate(engine.arena, Dtype::f32, true);
    params.back()->initialize(3);
    const auto values = to_floats(params.back()->master());
    expected.push_back({.w = Doubles(values.begin(), values.end()),
                        .m = Doubles(values.size()),
                        .v = Doubles(values.size()),
                        .tensors = static_cast<size_t>(made.tensors),
                        .decay = made.shape.dims() > 1 ? 0.1 : 0.0});
  }
  const auto optimizer = make_optimizer({.name = "lamb",
                                         .beta1 = 0.9,
                                         .beta2 = 0.99,
                                         .eps = 1e-6,
                                         .bias_correction = corrects,
                                         .weight_decay = 0.1},
                                        params);
  optimizer->allocate(engine.arena);
  for (int64_t step = 1; step <= 4; ++step) {
    std::unordered_map<const Param*, Tensor> grads;
    for (size_t p = 0; p < params.size(); ++p) {
      grads[params[p].get()] = engine.random(params[p]->shape(), params[p]->name() + std::to_string(step));
      expected[p].step(to_floats(grads[params[p].get()]), step, 0.02, corrects);
    }
    optimizer->step([&](Param& param) -> const Tensor& { return grads.at(&param); },
                    {.update = step, .lr = 0.02, .grad_scale = 1.0});
    for (size_t p = 0; p < params.size(); ++p) {
      const auto got = to_floats(params[p]->master());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(double(got[i]), expected[p].w[i], 3e-6) << step << " " << p << " " << i;
    }
  }
  EXPECT_EQ(optimizer->states()[0].name, "adam.m");
}
INSTANTIATE_TEST_SUITE_P(BiasCorrection, LambTest, testing::Bool());

}  // namespace
}  // namespace athanor::tests::lamb_test
