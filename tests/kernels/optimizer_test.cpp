#include <cmath>

#include "kernels/kernel_test.h"

namespace athanor {
namespace {

using OptimizerTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, OptimizerTest, row_isas(), isa_test_name);

const std::vector<int64_t> kSizes = {0, 1, 3, 17, 64, 65, 127, 16384 + 33};
constexpr double kSizesOfGradients[] = {1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6};
constexpr Dtype kNoValue = Dtype::u8;  // in place of a dtype: master is the value

// Ten steps, gradients of very different sizes; state and weights follow the same steps in double.
TEST_P(OptimizerTest, AdamwMatchesItsFormula) {
  for (const Dtype dtype : {kNoValue, Dtype::f32, Dtype::bf16, Dtype::f16})
    for (const int64_t n : kSizes) {
      SCOPED_TRACE(fmt::format("value {} n {}", name_of(dtype), n));
      const auto step_of = [](int t) {
        return AdamwStep{1e-2f * static_cast<float>(t),
                         0.9f,
                         0.99f,
                         1e-8f,
                         0.1f,
                         static_cast<float>(1 - std::pow(0.9, t)),
                         static_cast<float>(1 - std::pow(0.99, t)),
                         0.125f};
      };
      std::vector<Values> gradients;
      for (uint64_t t = 0; t < 10; ++t) {
        Values g = random_values(n, Dtype::f32, t);
        for (size_t i = 0; i < g.size(); ++i) g[i] = round_to(g[i] * kSizesOfGradients[i % 7], Dtype::f32);
        gradients.push_back(g);
      }
      const Values start = random_values(n, Dtype::f32, 99);
      const auto got = run(GetParam(), [&](Bench& bench) {
        Tensor master = bench.output(start, {n}, Dtype::f32);
        Tensor m = bench.output(Values(start.size(), 0), {n}, Dtype::f32);
        Tensor v = bench.output(Values(start.size(), 0), {n}, Dtype::f32);
        Tensor value = bench.output({n}, dtype == kNoValue ? Dtype::f32 : dtype);
        for (int t = 1; t <= 10; ++t)
          bench.kernels().optimizer.adamw(bench.queue(), master, m, v, dtype == kNoValue ? nullptr : &value,
                                          bench.input(gradients[static_cast<size_t>(t - 1)], {n}, Dtype::f32),
                                          step_of(t));
        return std::vector{master, m, v, value};
      });
      Values master = start, m(start.size(), 0), v(start.size(), 0);
      for (int t = 1; t <= 10; ++t) {
        const AdamwStep step = step_of(t);
        const Values& grad = gradients[static_cast<size_t>(t - 1)];
        for (size_t i = 0; i < grad.size(); ++i) {
          const double g = grad[i] * step.grad_scale;
          m[i] = double{step.beta1} * m[i] + (1 - double{step.beta1}) * g;
          v[i] = double{step.beta2} * v[i] + (1 - double{step.beta2}) * g * g;
          master[i] -= double{step.lr} * step.weight_decay * master[i];
          master[i] -= step.lr * (m[i] / step.correction1) / (std::sqrt(v[i] / step.correction2) + step.eps);
        }
      }
      expect_close(got[0], master, 3e-6);
      expect_close(got[1], m, 3e-6);
      expect_close(got[2], v, 3e-6);
      for (size_t i = 0; i < master.size() && dtype != kNoValue; ++i)
        ASSERT_EQ(got[3][i], round_to(got[0][i], dtype)) << i;
    }
}

TEST_P(OptimizerTest, SgdMatchesItsFormula) {
  for (const Dtype dtype : {kNoValue, Dtype::f32, Dtype::bf16, Dtype::f16})
    for (const int64_t n : kSizes) {
      SCOPED_TRACE(fmt::format("value {} n {}", name_of(dtype), n));
      const SgdStep step{0.05f, 0.9f, 0.01f, 0.25f};
      const Values start = random_values(n, Dtype::f32, 99), grad = random_values(n, Dtype::f32, 1);
      const auto got = run(GetParam(), [&](Bench& bench) {
        Tensor master = bench.output(start, {n}, Dtype::f32);
        Tensor m = bench.output(Values(start.size(), 0), {n}, Dtype::f32);
        Tensor value = bench.output({n}, dtype == kNoValue ? Dtype::f32 : dtype);
        for (int t = 1; t <= 5; ++t)
          bench.kernels().optimizer.sgd(bench.queue(), master, m, dtype == kNoValue ? nullptr : &value,
                                        bench.input(grad, {n}, Dtype::f32), step);
        return std::vector{master, m, value};
      });
      Values master = start, m(start.size(), 0);
      for (int t = 1; t <= 5; ++t)
        for (size_t i = 0; i < grad.size(); ++i) {
          m[i] = step.momentum * m[i] + grad[i] * step.grad_scale + step.weight_decay * master[i];
          master[i] -= step.lr * m[i];
        }
      expect_close(got[0], master, 2e-6);
      expect_close(got[1], m, 2e-6);
      for (size_t i = 0; i < master.size() && dtype != kNoValue; ++i)
        ASSERT_EQ(got[2][i], round_to(got[0][i], dtype)) << i;
    }
}

// A parameter that never gets a gradient (an unused row of an embedding) is decayed and otherwise stays.
TEST_P(OptimizerTest, ZeroGradientOnlyDecays) {
  const Values start = random_values(20, Dtype::f32, 1);
  const auto got = run(GetParam(), [&](Bench& bench) {
    Tensor master = bench.output(start, {20}, Dtype::f32);
    Tensor m = bench.output(Values(20, 0), {20}, Dtype::f32),
           v = bench.output(Values(20, 0), {20}, Dtype::f32);
    bench.kernels().optimizer.adamw(bench.queue(), master, m, v, nullptr,
                                    bench.input(Values(20, 0), {20}, Dtype::f32),
                                    {0.5f, 0.9f, 0.99f, 1e-8f, 0.5f, 0.1f, 0.01f, 1});
    return std::vector{master, m, v};
  });
  Values expected;
  for (const double value : start) expected.push_back(0.75 * value);
  expect_close(got[0], expected, 1e-7);
  EXPECT_EQ(got[1], Values(20, 0));
  EXPECT_EQ(got[2], Values(20, 0));
}

}  // namespace
}  // namespace athanor
