// rms_norm and layer_norm.
#include <cmath>

#include "kernels/kernel_test.h"

namespace athanor::tests::norm_test {
namespace {

using NormTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, NormTest, row_isas(), isa_test_name);

constexpr float kEps = 1e-5f;

struct NormSize {
  int64_t rows, width;
};
constexpr NormSize kNormSizes[] = {{0, 8}, {1, 1}, {3, 17}, {2, 64}, {31, 65}, {33, 127}, {64, 3}, {97, 530}};

// What one row needs, in double.
struct Row {
  double mean, rstd;
};
std::vector<Row> statistics(const Values& x, NormSize size, bool centered) {
  std::vector<Row> rows;
  for (int64_t row = 0; row < size.rows; ++row) {
    const double* values = x.data() + row * size.width;
    const auto width = static_cast<double>(size.width);
    double mean = 0, squares = 0;
    if (centered)
      for (int64_t c = 0; c < size.width; ++c) mean += values[c] / width;
    for (int64_t c = 0; c < size.width; ++c) squares += (values[c] - mean) * (values[c] - mean) / width;
    rows.push_back({mean, 1 / std::sqrt(squares + kEps)});
  }
  return rows;
}

struct ExpectedNorm {
  Values y, mean, rstd, dx, dw, db;
};
ExpectedNorm expected_norm(const Values& x, const Values& w, const Values& b, const Values& dy, NormSize size,
                           bool centered, double initial) {
  ExpectedNorm e;
  e.dw.assign(w.size(), initial);
  e.db.assign(w.size(), initial);
  const std::vector<Row> rows = statistics(x, size, centered);
  for (int64_t row = 0; row < size.rows; ++row) {
    const auto [mean, rstd] = rows[static_cast<size_t>(row)];
    e.mean.push_back(mean);
    e.rstd.push_back(rstd);
    double mean_g = 0, mean_product = 0;
    const auto element = [&](int64_t c) { return static_cast<size_t>(row * size.width + c); };
    const auto column = [](int64_t c) { return static_cast<size_t>(c); };
    for (int64_t c = 0; c < size.width; ++c) {
      const double normal = (x[element(c)] - mean) * rstd, g = dy[element(c)] * w[column(c)];
      e.y.push_back(normal * w[column(c)] + (b.empty() ? 0 : b[column(c)]));
      mean_g += g / static_cast<double>(size.width);
      mean_product += g * normal / static_cast<double>(size.width);
      e.dw[column(c)] += dy[element(c)] * normal;
      e.db[column(c)] += dy[element(c)];
    }
    for (int64_t c = 0; c < size.width; ++c) {
      const double normal = (x[element(c)] - mean) * rstd, g = dy[element(c)] * w[column(c)];
      e.dx.push_back(rstd * (g - (centered ? mean_g : 0) - normal * mean_product));
    }
  }
  return e;
}

TEST_P(NormTest, RmsNormMatchesItsFormula) {
  for (const Dtype dtype : kElementTypes)
    for (const NormSize size : kNormSizes) {
      SCOPED_TRACE(fmt::format("{} [{},{}]", name_of(dtype), size.rows, size.width));
      const int64_t n = size.rows * size.width;
      const Values x = random_values(n, dtype, 1, 3), w = random_values(size.width, dtype, 2);
      const Values dy = random_values(n, dtype, 3);
      const ExpectedNorm e = expected_norm(x, w, {}, dy, size, false, 0.5);
      const auto got = run(GetParam(), [&](Bench& bench) {
        const Shape shape{size.rows, size.width};
        const Tensor xs = bench.input(x, shape, dtype), ws = bench.input(w, {size.width}, dtype);
        const Tensor dys = bench.input(dy, shape, dtype);
        Tensor y = bench.output(shape, dtype), rstd = bench.output({size.rows}, Dtype::f32);
        Tensor dx = bench.output(shape, dtype);
        Tensor dw = bench.output(Values(w.size(), 0.5), {size.width}, Dtype::f32);
        const RmsNormKernels& kernels = bench.kernels().rms_norm;
        kernels.forward(bench.queue(), y, rstd, xs, ws, kEps);
        kernels.backward(bench.queue(), dx, dys, xs, ws, rstd, nullptr, nullptr);
        kernels.backward_weight(bench.queue(), dw, dys, xs, rstd);
        Tensor onto = bench.output(shape, dtype), after = bench.output(shape, dtype);
        Tensor dw_too = bench.output(Values(w.size(), 0.5), {size.width}, Dtype::f32);
        kernels.backward(bench.queue(), onto, dys, xs, ws, rstd, &xs, &dw_too);
        bench.kernels().elementwise.add(bench.queue(), after, xs, dx);
        return std::vector{y, rstd, dx, dw, onto, after, dw_too};
      });
      EXPECT_EQ(got[4], got[5]) << "with a base";
      EXPECT_EQ(got[6], got[3]) << "in one pass";
      expect_close(got[0], e.y, tolerance(dtype));
      expect_close(got[1], e.rstd, tolerance(Dtype::f32));
      // At width 1 the gradient is a difference of equals: rounding relative to what cancels.
      if (size.width > 1) expect_close(got[2], e.dx, tolerance(dtype));
      expect_close(got[3], e.dw, tolerance(Dtype::f32));
    }
}

TEST_P(NormTest, LayerNormMatchesItsFormula) {
  for (const Dtype dtype : kElementTypes)
    for (const NormSize size : kNormSizes)
      for (const bool bias : {true, false}) {
        SCOPED_TRACE(fmt::format("{} [{},{}] bias {}", name_of(dtype), size.rows, size.width, bias));
        const int64_t n = size.rows * size.width;
        const Values x = random_values(n, dtype, 1, 3), w = random_values(size.width, dtype, 2);
        const Values dy = random_values(n, dtype, 3);
        const Values b = bias ? random_values(size.width, dtype, 4) : Values{};
        const ExpectedNorm e = expected_norm(x, w, b, dy, size, true, 0.5);
        const auto got = run(GetParam(), [&](Bench& bench) {
          const Shape shape{size.rows, size.width};
          const Tensor xs = bench.input(x, shape, dtype), ws = bench.input(w, {size.width}, dtype);
          const Tensor dys = bench.input(dy, shape, dtype);
          const Tensor bs = bias ? bench.input(b, {size.width}, dtype) : Tensor();
          Tensor y = bench.output(shape, dtype), dx = bench.output(shape, dtype);
          Tensor mean = bench.output({size.rows}, Dtype::f32), rstd = bench.output({size.rows}, Dtype::f32);
          Tensor dw = bench.output(Values(w.size(), 0.5), {size.width}, Dtype::f32);
          Tensor db = bench.output(Values(w.size(), 0.5), {size.width}, Dtype::f32);
          const LayerNormKernels& kernels = bench.kernels().layer_norm;
          kernels.forward(bench.queue(), y, mean, rstd, xs, ws, bias ? &bs : nullptr, kEps);
          kernels.backward(bench.queue(), dx, dys, xs, ws, mean, rstd, nullptr, nullptr, nullptr);
          kernels.backward_weight(bench.queue(), dw, bias ? &db : nullptr, dys, xs, mean, rstd);
          Tensor onto = bench.output(shape, dtype), after = bench.output(shape, dtype);
          Tensor dw_too = bench.output(Values(w.size(), 0.5), {size.width}, Dtype::f32);
          Tensor db_too = bench.output(Values(w.size(), 0.5), {size.width}, Dtype::f32);
          kernels.backward(bench.queue(), onto, dys, xs, ws, mean, rstd, &xs, &dw_too,
                           bias ? &db_too : nullptr);
          bench.kernels().elementwise.add(bench.queue(), after, xs, dx);
          return std::vector{y, mean, rstd, dx, dw, db, onto, after, dw_too, db_too};
        });
        EXPECT_EQ(got[6], got[7]) << "with a base";
        EXPECT_EQ(got[8], got[4]) << "in one pass";
        EXPECT_EQ(got[9], got[5]) << "in one pass";
        if (size.width > 1) {
          expect_close(got[0], e.y, tolerance(dtype));
          expect_close(got[1], e.mean, 2e-6);
          expect_close(got[2], e.rstd, tolerance(Dtype::f32));
          expect_close(got[3], e.dx, tolerance(dtype));
        }
        expect_close(got[4], e.dw, tolerance(Dtype::f32));
        expect_close(got[5], bias ? e.db : Values(w.size(), 0.5), tolerance(Dtype::f32));
      }
}

// Rows far from zero: mean(x^2) - mean(x)^2 would lose the variance.
TEST_P(NormTest, LayerNormSurvivesALargeMean) {
  const NormSize size{5, 203};
  Values x = random_values(size.rows * size.width, Dtype::f32, 1);
  for (double& value : x) value = round_to(value + 1000, Dtype::f32);
  const Values w(static_cast<size_t>(size.width), 1);
  const ExpectedNorm e = expected_norm(x, w, {}, x, size, true, 0);
  const auto got = run(GetParam(), [&](Bench& bench) {
    const Shape shape{size.rows, size.width};
    Tensor y = bench.output(shape, Dtype::f32);
    Tensor mean = bench.output({size.rows}, Dtype::f32), rstd = bench.output({size.rows}, Dtype::f32);
    bench.kernels().layer_norm.forward(bench.queue(), y, mean, rstd, bench.input(x, shape, Dtype::f32),
                                       bench.input(w, {size.width}, Dtype::f32), nullptr, kEps);
    return std::vector{y, rstd};
  });
  expect_close(got[0], e.y, 2e-4);  // the mean itself is rounded to 2^-14
  expect_close(got[1], e.rstd, 1e-6);
}

TEST_P(NormTest, NotFiniteStaysNotFinite) {
  for (const Dtype dtype : kElementTypes)
    for (const double bad : {std::nan(""), HUGE_VAL}) {
      Values x(2 * 21, 0.5);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 4);
      x[40] = bad;
      const auto got = run(GetParam(), [&](Bench& bench) {
        const Shape shape{2, 21};
        const Tensor xs = bench.input(x, shape, dtype), w = bench.input(Values(21, 1), {21}, dtype);
        Tensor rms = bench.output(shape, dtype), layer = bench.output(shape, dtype);
        Tensor mean = bench.output({2}, Dtype::f32), rstd = bench.output({2}, Dtype::f32);
        bench.kernels().layer_norm.forward(bench.queue(), layer, mean, rstd, xs, w, nullptr, kEps);
        bench.kernels().rms_norm.forward(bench.queue(), rms, rstd, xs, w, kEps);
        return std::vector{rms, layer};
      });
      for (const Values& values : got) {
        for (size_t i = 0; i < 21; ++i) EXPECT_TRUE(std::isfinite(values[i])) << i;
        EXPECT_FALSE(std::isfinite(values[40]));
      }
    }
}

}  // namespace
}  // namespace athanor::tests::norm_test
