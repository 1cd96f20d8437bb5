#include <cmath>

#include "kernels/kernel_test.h"

namespace athanor::tests::rope_test {
namespace {

using RopeTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, RopeTest, row_isas(), isa_test_name);

struct RopeSize {
  int64_t batch, length, heads, head_dim, first;
};
constexpr RopeSize kRopeSizes[] = {{1, 1, 1, 2, 0},   {2, 3, 2, 8, 5},  {1, 17, 3, 64, 0},
                                   {2, 5, 2, 128, 1}, {1, 7, 5, 6, 3},  {2, 0, 2, 8, 0},
                                   {3, 2, 1, 34, 0},  {1, 4, 2, 96, 9}, {2, 70, 3, 80, 2}};

struct Tables {
  Values cos, sin;
  int64_t positions;
};
Tables tables_of(const RopeSize& size) {
  Tables tables{{}, {}, size.first + size.length + 1};
  for (int64_t p = 0; p < tables.positions; ++p)
    for (int64_t i = 0; i < size.head_dim / 2; ++i) {
      const double angle = static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(i) /
                                                                          static_cast<double>(size.head_dim));
      tables.cos.push_back(round_to(std::cos(angle), Dtype::f32));
      tables.sin.push_back(round_to(std::sin(angle), Dtype::f32));
    }
  return tables;
}

Values rotated(const Values& x, const Tables& tables, const RopeSize& size, int sign) {
  Values y(x.size());
  const int64_t half = size.head_dim / 2;
  for (int64_t n = 0; n < size.batch * size.length * size.heads; ++n) {
    const int64_t position = size.first + n / size.heads % size.length;
    for (int64_t i = 0; i < half; ++i) {
      const auto a = static_cast<size_t>(n * size.head_dim + i), b = a + static_cast<size_t>(half);
      const auto entry = static_cast<size_t>(position * half + i);
      y[a] = x[a] * tables.cos[entry] - sign * x[b] * tables.sin[entry];
      y[b] = x[b] * tables.cos[entry] + sign * x[a] * tables.sin[entry];
    }
  }
  return y;
}

TEST_P(RopeTest, RotatesEachPositionInPlaceOrNot) {
  for (const Dtype dtype : kElementTypes)
    for (const RopeSize& size : kRopeSizes)
      for (const int sign : {1, -1}) {
        SCOPED_TRACE(fmt::format("{} [{},{},{},{}] first {} sign {}", name_of(dtype), size.batch, size.length,
                                 size.heads, size.head_dim, size.first, sign));
        const Shape shape{size.batch, size.length, size.heads, size.head_dim};
        const Values x = random_values(shape.numel(), dtype, 7);
        const Tables tables = tables_of(size);
        const auto got = run(GetParam(), [&](Bench& bench) {
          const Shape table_shape{tables.positions, size.head_dim / 2};
          const Tensor cos = bench.input(tables.cos, table_shape, Dtype::f32);
          const Tensor sin = bench.input(tables.sin, table_shape, Dtype::f32);
          Tensor y = bench.output(shape, dtype), in_place = bench.output(x, shape, dtype);
          bench.kernels().rope.apply(bench.queue(), y, bench.input(x, shape, dtype), cos, sin, size.first,
                                     sign);
          bench.kernels().rope.apply(bench.queue(), in_place, in_place, cos, sin, size.first, sign);
          return std::vector{y, in_place};
        });
        expect_close(got[0], rotated(x, tables, size, sign), tolerance(dtype));
        EXPECT_EQ(got[0], got[1]);
      }
}

}  // namespace
}  // namespace athanor::tests::rope_test
