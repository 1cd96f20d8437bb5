#include <cmath>

#include "kernels/kernel_test.h"

namespace athanor::tests::optimizer_test {
namespace {

using OptimizerTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, OptimizerTest, row_isas(), isa_test_name);

const std::vector<int64_t> kOptimizerSizes = {0, 1, 3, 17, 64, 65, 127, 16384 + 33};
constexpr double kSizesOfGradients[] = {1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6};
constexpr Dtype kNoValue = Dtype::u8;  // in place of a dtype: master is the value

constexpr float kDecay = 0.1f;

void update(Bench& bench, const AdamwTensors& tensors, const AdamwStep& step) {
  bench.kernels().optimizer.adamw(bench.queue(), {&tensors, 1}, step);
}
void update(Bench& bench, const SgdTensors& tensors, const SgdStep& step) {
  bench.kernels().optimizer.sgd(bench.queue(), {&tensors, 1}, step);
}

// Ten steps, gradients of very different sizes; state and weights follow the same steps in double.
TEST_P(OptimizerTest, AdamwMatchesItsFormula) {
  for (const Dtype dtype : {kNoValue, Dtype::f32, Dtype::bf16, Dtype::f16})
    for (const int64_t n : kOptimizerSizes) {
      SCOPED_TRACE(fmt::format("value {} n {}", name_of(dtype), n));
      const auto step_of = [](int t) {
        return AdamwStep{1e-2f * static_cast<float>(t),
                         0.9f,
                         0.99f,
                         1e-8f,
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
          update(bench,
                 AdamwTensors{master, m, v, dtype == kNoValue ? Tensor() : value,
                              bench.input(gradients[static_cast<size_t>(t - 1)], {n}, Dtype::f32), kDecay},
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
          master[i] -= double{step.lr} * kDecay * master[i];
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
    for (const int64_t n : kOptimizerSizes) {
      SCOPED_TRACE(fmt::format("value {} n {}", name_of(dtype), n));
      const SgdStep step{0.05f, 0.9f, 0.25f};
      const Values start = random_values(n, Dtype::f32, 99), grad = random_values(n, Dtype::f32, 1);
      const auto got = run(GetParam(), [&](Bench& bench) {
        Tensor master = bench.output(start, {n}, Dtype::f32);
        Tensor m = bench.output(Values(start.size(), 0), {n}, Dtype::f32);
        Tensor value = bench.output({n}, dtype == kNoValue ? Dtype::f32 : dtype);
        for (int t = 1; t <= 5; ++t)
          update(bench,
                 SgdTensors{master, m, dtype == kNoValue ? Tensor() : value,
                            bench.input(grad, {n}, Dtype::f32), kDecay},
                 step);
        return std::vector{master, m, value};
      });
      Values master = start, m(start.size(), 0);
      for (int t = 1; t <= 5; ++t)
        for (size_t i = 0; i < grad.size(); ++i) {
          m[i] = step.momentum * m[i] + grad[i] * step.grad_scale + kDecay * master[i];
          master[i] -= step.lr * m[i];
        }
      expect_close(got[0], master, 2e-6);
      expect_close(got[1], m, 2e-6);
      for (size_t i = 0; i < master.size() && dtype != kNoValue; ++i)
        ASSERT_EQ(got[2][i], round_to(got[0][i], dtype)) << i;
    }
}

// Norm blocks from the first element, the last one shorter; nothing is changed.
TEST_P(OptimizerTest, LambSquaresFollowTheirFormula) {
  constexpr int64_t kSize = 16384 + 2 * kNormBlock + 7;
  const Values w = random_values(kSize, Dtype::f32, 1), m = random_values(kSize, Dtype::f32, 2),
               g = random_values(kSize, Dtype::f32, 3);
  Values expected, squares;
  for (int64_t first = 0; first < kSize; first += kNormBlock) {
    double weight = 0, update = 0;
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(std::min(kSize, first + kNormBlock));
         ++i) {
      const double grad = 0.5 * g[i], mi = 0.9 * m[i] + 0.1 * grad, vi = 0.99 * 0.25 + 0.01 * grad * grad;
      const double r = mi / 0.4 / (std::sqrt(vi / 0.2) + 1e-6) + 0.3 * w[i];
      weight += w[i] * w[i];
      update += r * r;
    }
    expected.insert(expected.end(), {weight, update});
  }
  const auto measured = [&](Bench& bench) {
    const Shape shape{kSize};
    std::vector<double> sums(expected.size());
    const Tensor master = bench.output(w, shape, Dtype::f32);
    const LambTensors tensors{master,
                              bench.input(m, shape, Dtype::f32),
                              bench.input(Values(static_cast<size_t>(kSize), 0.25), shape, Dtype::f32),
                              bench.input(g, shape, Dtype::f32),
                              0.3f,
                              sums.data()};
    bench.kernels().optimizer.lamb_squares(bench.queue(), {&tensors, 1},
                                           {0.01f, 0.9f, 0.99f, 1e-6f, 0.4f, 0.2f, 0.5f});
    squares.assign(sums.begin(), sums.end());
    return std::vector{master};
  };
  if (tests_are_of_cuda()) {  // a device has no such kernel, and says so
    EXPECT_THROW(run(GetParam(), measured), Error);
    return;
  }
  const auto got = run(GetParam(), measured);
  EXPECT_EQ(got[0], w);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(squares[i], expected[i], 1e-5 * expected[i]) << i;
}

// A parameter that never gets a gradient (an unused row of an embedding) is decayed and otherwise stays.
TEST_P(OptimizerTest, ZeroGradientOnlyDecays) {
  const Values start = random_values(20, Dtype::f32, 1);
  const auto got = run(GetParam(), [&](Bench& bench) {
    Tensor master = bench.output(start, {20}, Dtype::f32);
    Tensor m = bench.output(Values(20, 0), {20}, Dtype::f32),
           v = bench.output(Values(20, 0), {20}, Dtype::f32);
    update(bench, AdamwTensors{master, m, v, {}, bench.input(Values(20, 0), {20}, Dtype::f32), 0.5f},
           {0.5f, 0.9f, 0.99f, 1e-8f, 0.1f, 0.01f, 1});
    return std::vector{master, m, v};
  });
  Values expected;
  for (const double value : start) expected.push_back(0.75 * value);
  expect_close(got[0], expected, 1e-7);
  EXPECT_EQ(got[1], Values(20, 0));
  EXPECT_EQ(got[2], Values(20, 0));
}

// Parameters of one call share its threads and nothing else: values, decays and sizes are each one's own.
TEST_P(OptimizerTest, ManyParametersInOneCallAreAsOneByOne) {
  const std::vector<int64_t> sizes = {1, 40000, 0, 17, 16384, 16385, 3};
  const AdamwStep step{0.01f, 0.9f, 0.99f, 1e-8f, 0.1f, 0.01f, 0.5f};
  const auto results = [&](bool together) {
    return run(GetParam(), [&](Bench& bench) {
      std::vector<AdamwTensors> all;
      std::vector<Tensor> outputs;
      for (size_t i = 0; i < sizes.size(); ++i) {
        const Shape shape{sizes[i]};
        AdamwTensors x{bench.output(random_values(sizes[i], Dtype::f32, i), shape, Dtype::f32),
                       bench.output(random_values(sizes[i], Dtype::f32, i + 10), shape, Dtype::f32),
                       bench.output(Values(static_cast<size_t>(sizes[i]), 0.25), shape, Dtype::f32),
                       i % 2 == 0 ? Tensor() : bench.output(shape, i == 1 ? Dtype::f16 : Dtype::bf16),
                       bench.input(random_values(sizes[i], Dtype::f32, i + 20), shape, Dtype::f32),
                       static_cast<float>(i) * 0.1f};
        outputs.insert(outputs.end(), {x.master, x.m, x.v});
        if (x.value.defined()) outputs.push_back(x.value);
        all.push_back(std::move(x));
      }
      if (together) bench.kernels().optimizer.adamw(bench.queue(), all, step);
      for (const AdamwTensors& x : all)
        if (!together) update(bench, x, step);
      return outputs;
    });
  };
  EXPECT_EQ(results(true), results(false));
}

}  // namespace
}  // namespace athanor::tests::optimizer_test
