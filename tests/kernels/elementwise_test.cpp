#include <cmath>

#include "kernels/kernel_test.h"

namespace athanor::tests::elementwise_test {
namespace {

using ElementwiseTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, ElementwiseTest, row_isas(), isa_test_name);

const std::vector<int64_t> kElementwiseSizes = {0, 1, 3, 7, 17, 64, 65, 127, 3 * 16384 + 5};

TEST_P(ElementwiseTest, AddRoundsOnce) {
  for (const Dtype dtype : kElementTypes)
    for (const int64_t n : kElementwiseSizes) {
      SCOPED_TRACE(fmt::format("{} n {}", name_of(dtype), n));
      const Values a = random_values(n, dtype, 1), b = random_values(n, dtype, 2);
      const auto got = run(GetParam(), [&](Bench& bench) {
        Tensor y = bench.output({n}, dtype), left = bench.output(a, {n}, dtype),
               right = bench.output(b, {n}, dtype);
        const Tensor as = bench.input(a, {n}, dtype), bs = bench.input(b, {n}, dtype);
        bench.kernels().elementwise.add(bench.queue(), y, as, bs);
        bench.kernels().elementwise.add(bench.queue(), left, left, bs);
        bench.kernels().elementwise.add(bench.queue(), right, as, right);
        return std::vector{y, left, right};
      });
      Values expected;
      for (size_t i = 0; i < a.size(); ++i)
        expected.push_back(round_to(static_cast<float>(a[i]) + static_cast<float>(b[i]), dtype));
      for (const Values& values : got) EXPECT_EQ(values, expected);
    }
}

TEST_P(ElementwiseTest, AccumulateAndScale) {
  for (const int64_t n : kElementwiseSizes) {
    const Values x = random_values(n, Dtype::f32, 1), y = random_values(n, Dtype::f32, 2);
    const auto got = run(GetParam(), [&](Bench& bench) {
      Tensor sum = bench.output(y, {n}, Dtype::f32), product = bench.output(x, {n}, Dtype::f32);
      bench.kernels().elementwise.accumulate(bench.queue(), sum, bench.input(x, {n}, Dtype::f32));
      bench.kernels().elementwise.scale(bench.queue(), product, 0.3f);
      return std::vector{sum, product};
    });
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(got[0][i], static_cast<float>(y[i]) + static_cast<float>(x[i])) << i << " of " << n;
      ASSERT_EQ(got[1][i], static_cast<float>(x[i]) * 0.3f) << i << " of " << n;
    }
  }
}

// Blocks of 32 rows, the blocks added in order: bits, not a tolerance. A device has an order of its own.
TEST_P(ElementwiseTest, ColumnSumAddsBlocksInOrder) {
  struct Size {
    int64_t rows, width;
  };
  for (const Dtype dtype : kElementTypes)
    for (const Size& size : {Size{0, 5}, {1, 1}, {31, 17}, {32, 64}, {33, 65}, {100, 127}, {65, 1100}}) {
      const int64_t rows = size.rows, width = size.width;
      SCOPED_TRACE(fmt::format("{} [{},{}]", name_of(dtype), rows, width));
      const Values x = random_values(rows * width, dtype, 1), start = random_values(width, Dtype::f32, 2);
      const auto got = run(GetParam(), [&](Bench& bench) {
        Tensor out = bench.output(start, {width}, Dtype::f32);
        bench.kernels().elementwise.column_sum(bench.queue(), out, bench.input(x, {rows, width}, dtype));
        return std::vector{out};
      });
      for (int64_t c = 0; c < width; ++c) {
        auto total = static_cast<float>(start[static_cast<size_t>(c)]);
        for (int64_t first = 0; first < rows; first += 32) {
          float block = 0;
          for (int64_t row = first; row < std::min(rows, first + 32); ++row)
            block += static_cast<float>(x[static_cast<size_t>(row * width + c)]);
          total += block;
        }
        if (tests_are_of_cuda())
          ASSERT_NEAR(got[0][static_cast<size_t>(c)], total, 1e-5) << "column " << c;
        else
          ASSERT_EQ(got[0][static_cast<size_t>(c)], total) << "column " << c;
      }
    }
}

// As numbers: the bits of a NaN are free, the sign of a zero is not.
bool same(double got, double expected) {
  if (std::isnan(expected)) return std::isnan(got);
  return got == expected && std::signbit(got) == std::signbit(expected);
}

// Values at every rounding boundary: each 16-bit value, the midpoint to the next, and the floats beside it.
std::vector<float> boundary_floats(Dtype dtype) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits), next = static_cast<uint16_t>(bits + 1);
    const float a = dtype == Dtype::bf16 ? to_float(Bf16{half}) : to_float(F16{half});
    const float b = dtype == Dtype::bf16 ? to_float(Bf16{next}) : to_float(F16{next});
    values.push_back(a);
    if (!std::isfinite(a)) continue;
    const float middle = std::isfinite(b) ? a / 2 + b / 2 : a * (1 + 0x1p-12f);
    values.insert(values.end(), {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, HUGE_VALF)});
  }
  return values;
}

TEST_P(ElementwiseTest, CastRoundsToNearestEven) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    std::vector<float> values = boundary_floats(dtype);
    for (const float value :
         {65504.0f, 65519.99f, 65520.0f, 3e38f, -3.4e38f, 1e-45f, 0x1p-25f, 0x1.8p-25f, 1e-8f})
      values.push_back(value);
    const auto n = static_cast<int64_t>(values.size());
    Bench bench(GetParam(), 2);
    Tensor x = bench.output({n}, Dtype::f32), y = bench.output({n}, dtype),
           back = bench.output({n}, Dtype::f32);
    copy_from_host(x, values.data(), values.size() * sizeof(float));
    bench.kernels().elementwise.cast(bench.queue(), y, x);
    bench.kernels().elementwise.cast(bench.queue(), back, y);
    bench.expect_guards_intact();
    const Values rounded = values_of(y), widened = values_of(back);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(same(rounded[i], round_to(values[i], dtype)))
          << fmt::format("{} of {:a} is {:a}", name_of(dtype), values[i], rounded[i]);
      ASSERT_TRUE(same(widened[i], rounded[i])) << fmt::format("{} {:a}", name_of(dtype), rounded[i]);
    }
  }
}

TEST_P(ElementwiseTest, CastBetweenAnyTwoTypes) {
  for (const Dtype from : kElementTypes)
    for (const Dtype to : kElementTypes)
      for (const int64_t n : kElementwiseSizes) {
        SCOPED_TRACE(fmt::format("{} to {} n {}", name_of(from), name_of(to), n));
        const Values x = random_values(n, from, 1, 100);
        const auto got = run(GetParam(), [&](Bench& bench) {
          Tensor y = bench.output({n}, to);
          bench.kernels().elementwise.cast(bench.queue(), y, bench.input(x, {n}, from));
          return std::vector{y};
        });
        for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(got[0][i], round_to(x[i], to)) << i;
      }
}

double sum_squares(Bench& bench, const Tensor& x) {
  double sum = 0;
  bench.kernels().elementwise.sum_squares(bench.queue(), {&x, 1}, {&sum, 1});
  return sum;
}

double sum_squares(Isa isa, const Values& x, int threads = 2) {
  Bench bench(isa, threads);
  const auto n = static_cast<int64_t>(x.size());
  return sum_squares(bench, bench.input(x, {n}, Dtype::f32));
}

TEST_P(ElementwiseTest, SumSquaresIsExactEnoughAndTheSameForAnyThreads) {
  for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{8}, int64_t{17}, int64_t{127},
                          kNormBlock, 4 * kNormBlock + 3}) {
    const Values x = random_values(n, Dtype::f32, 1);
    double expected = 0;
    for (const double value : x) expected += value * value;
    const double got = sum_squares(GetParam(), x, 1);
    EXPECT_NEAR(got, expected, 1e-12 * expected) << n;
    for (const int threads : {2, 3}) EXPECT_EQ(got, sum_squares(GetParam(), x, threads)) << n;
  }
  EXPECT_EQ(sum_squares(GetParam(), {1e30, 1e30}),
            2 * round_to(1e30, Dtype::f32) * round_to(1e30, Dtype::f32));
}

TEST_P(ElementwiseTest, SumSquaresOfNodesAddUpToTheWholeInTheTree) {
  const int64_t n = 20 * kNormBlock + 100;  // more than a block of work; 21 blocks: the tree's edge is ragged
  Values x = random_values(n, Dtype::f32, 1);
  for (int64_t i = 0; i < n; ++i)  // blocks of different sizes, so that their order shows
    x[static_cast<size_t>(i)] *= std::pow(7.0, static_cast<double>(i / kNormBlock % 11));
  Bench bench(GetParam(), 2);
  const Tensor whole = bench.input(x, {n}, Dtype::f32);
  const auto node = [&](int64_t first, int64_t last) {
    const int64_t end = std::min(last * kNormBlock, n);
    return sum_squares(bench, whole.flat(first * kNormBlock, end - first * kNormBlock));
  };
  EXPECT_EQ(((node(0, 2) + node(2, 4)) + node(4, 8) + node(8, 16)) + (node(16, 20) + node(20, 21)),
            node(0, 21));
}

TEST_P(ElementwiseTest, SumSquaresOfManyAreEachOnesOwn) {
  Bench bench(GetParam(), 2);
  std::vector<Tensor> xs;
  for (const int64_t n : {3, 0, 50000, 16384, 1, 16385})
    xs.push_back(bench.input(random_values(n, Dtype::f32, static_cast<uint64_t>(n)), {n}, Dtype::f32));
  std::vector<double> sums(xs.size(), 7.0);
  bench.kernels().elementwise.sum_squares(bench.queue(), xs, sums);
  for (size_t i = 0; i < xs.size(); ++i) EXPECT_EQ(sums[i], sum_squares(bench, xs[i])) << i;
}

TEST_P(ElementwiseTest, SumSquaresShowsWhatIsNotFinite) {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL})
    for (size_t n = 1; n < 40; n += 6)
      for (size_t place = 0; place < n; ++place) {
        Values x(n, 1);
        x[place] = bad;
        EXPECT_FALSE(std::isfinite(sum_squares(GetParam(), x, 1))) << bad << " at " << place << " of " << n;
      }
  Values large(static_cast<size_t>(2 * kNormBlock + 1), 0);
  large.back() = std::nan("");
  EXPECT_TRUE(std::isnan(sum_squares(GetParam(), large)));
}

}  // namespace
}  // namespace athanor::tests::elementwise_test
