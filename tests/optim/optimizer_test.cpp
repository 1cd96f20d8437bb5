// The optimizers against their formulas in double, over several steps, and what they keep for a checkpoint.
#include "athanor/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/engine.h"

namespace athanor::tests::optimizer_test {
namespace {

struct OptimizerFixture {
  explicit OptimizerFixture(const std::string& name, Dtype dtype = Dtype::f32, bool corrects = true) {
    params.push_back(std::make_unique<Param>("matrix", Shape{5, 7}, Init::normal(0.5)));
    params.push_back(std::make_unique<Param>("vector", Shape{9}, Init::normal(0.5)));
    for (const auto& param : params) {
      param->allocate(engine.arena, dtype, true);
      param->initialize(3);
    }
    OptimizerOptions options;
    options.name = name;
    options.weight_decay = 0.1;
    options.bias_correction = corrects;
    optimizer = make_optimizer(options, params);
    optimizer->allocate(engine.arena);
  }
  Tensor grad(const Param& param, int64_t step) {
    return engine.random(param.shape(), param.name() + std::to_string(step));
  }
  void step(int64_t number, double lr, double scale) {
    std::vector<Tensor> grads;
    for (const auto& param : params) grads.push_back(grad(*param, number));
    optimizer->step(
        [&](Param& param) -> const Tensor& { return &param == params[0].get() ? grads[0] : grads[1]; },
        {.update = number, .lr = lr, .grad_scale = scale});
  }

  Engine engine{2};
  std::vector<std::unique_ptr<Param>> params;
  std::unique_ptr<Optimizer> optimizer;
};

class AdamWTest : public testing::TestWithParam<bool> {};

TEST_P(AdamWTest, FollowsItsFormula) {
  const bool corrects = GetParam();
  OptimizerFixture f("adamw", Dtype::f32, corrects);
  std::vector<std::vector<double>> x, m, v;
  for (const auto& param : f.params) {
    const auto values = to_floats(param->master());
    x.emplace_back(values.begin(), values.end());
    m.emplace_back(values.size());
    v.emplace_back(values.size());
  }
  for (int64_t step = 1; step <= 5; ++step) {
    f.step(step, 0.01, 0.5);
    for (size_t p = 0; p < x.size(); ++p) {
      const auto grads = to_floats(f.grad(*f.params[p], step));
      const double decay = p == 0 ? 0.1 : 0.0;  // matrices only
      for (size_t i = 0; i < grads.size(); ++i) {
        const double g = 0.5 * double(grads[i]);
        m[p][i] = 0.9 * m[p][i] + 0.1 * g;
        v[p][i] = 0.95 * v[p][i] + 0.05 * g * g;
        x[p][i] -= 0.01 * decay * x[p][i];
        const double c1 = corrects ? 1 - std::pow(0.9, step) : 1,
                     c2 = corrects ? 1 - std::pow(0.95, step) : 1;
        x[p][i] -= 0.01 * (m[p][i] / c1) / (std::sqrt(v[p][i] / c2) + 1e-8);
      }
      const auto got = to_floats(f.params[p]->master());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(double(got[i]), x[p][i], 2e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(BiasCorrection, AdamWTest, testing::Bool());

TEST(Sgd, FollowsItsFormula) {
  OptimizerFixture f("sgd");
  std::vector<double> x, momentum(35);
  const auto values = to_floats(f.params[0]->master());
  x.assign(values.begin(), values.end());
  for (int64_t step = 1; step <= 5; ++step) {
    f.step(step, 0.01, 2.0);
    const auto grads = to_floats(f.grad(*f.params[0], step));
    for (size_t i = 0; i < x.size(); ++i) {
      momentum[i] = 0.9 * momentum[i] + 2.0 * double(grads[i]) + 0.1 * x[i];
      x[i] -= 0.01 * momentum[i];
    }
  }
  const auto got = to_floats(f.params[0]->master());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(double(got[i]), x[i], 1e-5);
}

TEST(Optimizer, TheComputedCopyIsTheRoundedMaster) {
  for (const char* name : {"adamw", "sgd"})
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
      OptimizerFixture f(name, dtype);
      f.step(1, 0.01, 1.0);
      for (const auto& param : f.params) {
        const auto master = to_floats(param->master()), value = to_floats(param->value());
        for (size_t i = 0; i < master.size(); ++i)
          EXPECT_EQ(value[i], dtype == Dtype::bf16 ? to_float(from_float<Bf16>(master[i]))
                                                   : to_float(from_float<F16>(master[i])));
      }
    }
}

TEST(Optimizer, NamesItsStateForCheckpoints) {
  OptimizerFixture adam("adamw"), sgd("sgd");
  ASSERT_EQ(adam.optimizer->states().size(), 4u);
  EXPECT_EQ(adam.optimizer->states()[1].name, "adam.v");
  EXPECT_EQ(adam.optimizer->states()[1].param->name(), "matrix");
  ASSERT_EQ(sgd.optimizer->states().size(), 2u);
}

TEST(Optimizer, UnknownNameIsAnError) {
  EXPECT_THROW(OptimizerFixture("adamx"), Error);
}

}  // namespace
}  // namespace athanor::tests::optimizer_test
