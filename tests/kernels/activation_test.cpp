// swiglu and gelu.
#include <cmath>

#include "kernels/kernel_test.h"

namespace athanor::tests::activation_test {
namespace {

using ActivationTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, ActivationTest, row_isas(), isa_test_name);

const std::vector<int64_t> kActivationSizes = {0, 1, 3, 17, 64, 65, 127, 3 * 16384 + 5};

// Random values with some that saturate the exponential, both ways.
Values spread_values(int64_t n, Dtype dtype, uint64_t seed) {
  Values x = random_values(n, dtype, seed, 2);
  const double extremes[] = {0, -0.0, 1e-4, -1e-4, 20, -20, 88, -88, 95, -95, 300, -300};
  for (size_t i = 0; i < x.size(); ++i)
    if (i % 5 == 2) x[i] = round_to(extremes[i / 5 % std::size(extremes)], dtype);
  return x;
}

constexpr GeluForm kForms[] = {GeluForm::tanh, GeluForm::exact};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

TEST_P(ActivationTest, SwigluMatchesItsFormula) {
  for (const Dtype dtype : kElementTypes)
    for (const int64_t n : kActivationSizes) {
      SCOPED_TRACE(fmt::format("{} n {}", name_of(dtype), n));
      const Values gate = spread_values(n, dtype, 1), up = random_values(n, dtype, 2),
                   dy = random_values(n, dtype, 3);
      const auto got = run(GetParam(), [&](Bench& bench) {
        const Shape shape{n};
        const Tensor g = bench.input(gate, shape, dtype), u = bench.input(up, shape, dtype);
        Tensor y = bench.output(shape, dtype), dgate = bench.output(shape, dtype),
               dup = bench.output(shape, dtype);
        bench.kernels().swiglu.forward(bench.queue(), y, g, u);
        bench.kernels().swiglu.backward(bench.queue(), dgate, dup, bench.input(dy, shape, dtype), g, u);
        Tensor other = bench.output(shape, dtype), in_place = bench.output(dy, shape, dtype);
        bench.kernels().swiglu.backward(bench.queue(), other, in_place, in_place, g, u);
        return std::vector{y, dgate, dup, other, in_place};
      });
      EXPECT_EQ(got[3], got[1]);
      EXPECT_EQ(got[4], got[2]);
      Values y, dgate, dup;
      for (size_t i = 0; i < gate.size(); ++i) {
        const double g = gate[i], s = sigmoid(g);
        y.push_back(g * s * up[i]);
        dgate.push_back(dy[i] * up[i] * s * (1 + g * (1 - s)));
        dup.push_back(dy[i] * g * s);
      }
      expect_close(got[0], y, tolerance(dtype));
      expect_close(got[1], dgate, tolerance(dtype));
      expect_close(got[2], dup, tolerance(dtype));
    }
}

TEST_P(ActivationTest, GeluMatchesItsFormula) {
  for (const GeluForm form : kForms)
    for (const Dtype dtype : kElementTypes)
      for (const int64_t n : kActivationSizes) {
        SCOPED_TRACE(fmt::format("form {} {} n {}", static_cast<int>(form), name_of(dtype), n));
        const Values x = spread_values(n, dtype, 1), dy = random_values(n, dtype, 3);
        const auto got = run(GetParam(), [&](Bench& bench) {
          const Shape shape{n};
          const Tensor input = bench.input(x, shape, dtype);
          Tensor y = bench.output(shape, dtype), dx = bench.output(shape, dtype);
          bench.kernels().gelu.forward(bench.queue(), y, input, form);
          bench.kernels().gelu.backward(bench.queue(), dx, bench.input(dy, shape, dtype), input, form);
          Tensor in_place = bench.output(dy, shape, dtype);
          bench.kernels().gelu.backward(bench.queue(), in_place, in_place, input, form);
          return std::vector{y, dx, in_place};
        });
        EXPECT_EQ(got[2], got[1]);
        Values y, dx;
        for (size_t i = 0; i < x.size(); ++i) {
          const double v = x[i], share = std::erfc(-v / std::sqrt(2.0)) / 2;
          if (form == GeluForm::exact) {
            y.push_back(v * share);
            dx.push_back(dy[i] * (share + v * std::exp(-v * v / 2) / std::sqrt(2 * M_PI)));
            continue;
          }
          const double slope = std::sqrt(2 / M_PI), t = std::tanh(slope * (v + 0.044715 * v * v * v));
          y.push_back(v / 2 * (1 + t));
          dx.push_back(dy[i] * ((1 + t) / 2 + v / 2 * (1 - t * t) * slope * (1 + 0.134145 * v * v)));
        }
        expect_close(got[0], y, tolerance(dtype));
        expect_close(got[1], dx, tolerance(dtype));
      }
}

// Small inputs, where an exponential with too few bits shows: near zero tanh(u) is u.
TEST_P(ActivationTest, SmallInputsKeepTheirPrecision) {
  const int64_t n = 37;
  const Values x = random_values(n, Dtype::f32, 8, 1e-3);
  const auto got = run(GetParam(), [&](Bench& bench) {
    Tensor gelu = bench.output({n}, Dtype::f32), swiglu = bench.output({n}, Dtype::f32);
    const Tensor input = bench.input(x, {n}, Dtype::f32);
    bench.kernels().gelu.forward(bench.queue(), gelu, input, GeluForm::tanh);
    bench.kernels().swiglu.forward(bench.queue(), swiglu, input, bench.input(Values(n, 1), {n}, Dtype::f32));
    return std::vector{gelu, swiglu};
  });
  Values gelu, swiglu;
  for (const double v : x) {
    gelu.push_back(v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))));
    swiglu.push_back(v * sigmoid(v));
  }
  expect_close(got[0], gelu, 1e-6);
  expect_close(got[1], swiglu, 1e-6);
}

// A NaN or an infinity that appears in a step must reach its gradients: loss scaling looks for it there.
TEST_P(ActivationTest, NotFiniteStaysNotFinite) {
  for (const Dtype dtype : kElementTypes)
    for (const double bad : {std::nan(""), HUGE_VAL}) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(dtype), bad));
      for (const int64_t place : {0, 15, 16, 20}) {
        const GeluForm form = kForms[place % 2];
        Values x(21, 0.5), ones(21, 1);
        x[static_cast<size_t>(place)] = bad;
        const auto got = run(GetParam(), [&](Bench& bench) {
          const Shape shape{21};
          const Tensor in = bench.input(x, shape, dtype), one = bench.input(ones, shape, dtype);
          Tensor gelu = bench.output(shape, dtype), swiglu = bench.output(shape, dtype);
          Tensor dx = bench.output(shape, dtype), dgate = bench.output(shape, dtype),
                 dup = bench.output(shape, dtype);
          bench.kernels().gelu.forward(bench.queue(), gelu, in, form);
          bench.kernels().gelu.backward(bench.queue(), dx, in, one, form);
          bench.kernels().swiglu.forward(bench.queue(), swiglu, in, one);
          bench.kernels().swiglu.backward(bench.queue(), dgate, dup, in, one, one);
          return std::vector{gelu, dx, swiglu, dgate, dup};
        });
        for (const Values& values : got)
          for (int64_t i = 0; i < 21; ++i)
            EXPECT_EQ(std::isfinite(values[static_cast<size_t>(i)]), i != place) << i;
      }
    }
}

}  // namespace
}  // namespace athanor::tests::activation_test
