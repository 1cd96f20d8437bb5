#include <cmath>
#include <cstring>

#include "athanor/kernels/cpu/gemm_problem.h"
#include "athanor/kernels/packed_weights.h"
#include "kernels/kernel_test.h"

namespace athanor::tests::gemm_test {
namespace {

using GemmTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, GemmTest,
                         testing::Values(Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx),
                         isa_test_name);

struct GemmSize {
  int64_t m, n, k;
};
constexpr GemmSize kGemmSizes[] = {{1, 1, 1},     {1, 64, 17},    {3, 5, 7},     {17, 3, 64},
                                   {64, 64, 64},  {65, 127, 33},  {127, 1, 65},  {0, 16, 16},
                                   {32, 256, 96}, {130, 70, 200}, {2, 300, 129}, {257, 96, 64}};

// a (i, l) and b (l, j), wherever the layout keeps them.
template <typename A, typename B>
Values product(GemmSize size, const A& a, const B& b) {
  Values c;
  for (int64_t i = 0; i < size.m; ++i)
    for (int64_t j = 0; j < size.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < size.k; ++l) sum += a(i, l) * b(l, j);
      c.push_back(sum);
    }
  return c;
}

std::string name(Dtype dtype, GemmSize size) {
  return fmt::format("{} m {} n {} k {}", name_of(dtype), size.m, size.n, size.k);
}

TEST_P(GemmTest, Nt) {
  for (const Dtype dtype : kElementTypes)
    for (const GemmSize size : kGemmSizes) {
      SCOPED_TRACE(name(dtype, size));
      const Values a = random_values(size.m * size.k, dtype, 1), b = random_values(size.n * size.k, dtype, 2);
      const Values bias = random_values(size.n, dtype, 3);
      const auto got = run(GetParam(), [&](Bench& bench) {
        const Tensor as = bench.input(a, {size.m, size.k}, dtype),
                     bs = bench.input(b, {size.n, size.k}, dtype);
        const Tensor shift = bench.input(bias, {size.n}, dtype);
        Tensor plain = bench.output({size.m, size.n}, dtype), shifted = bench.output({size.m, size.n}, dtype);
        Tensor wide = bench.output({size.m, size.n}, Dtype::f32),
               wide_shifted = bench.output({size.m, size.n}, Dtype::f32);
        const GemmKernels& gemm = bench.kernels().gemm;
        gemm.nt(bench.queue(), plain, as, bs, nullptr);
        gemm.nt(bench.queue(), shifted, as, bs, &shift);
        gemm.nt(bench.queue(), wide, as, bs, nullptr);
        gemm.nt(bench.queue(), wide_shifted, as, bs, &shift);
        return std::vector{plain, shifted, wide, wide_shifted};
      });
      const Values expected = product(
          size, [&](int64_t i, int64_t l) { return a[static_cast<size_t>(i * size.k + l)]; },
          [&](int64_t l, int64_t j) { return b[static_cast<size_t>(j * size.k + l)]; });
      Values shifted = expected;
      for (size_t i = 0; i < shifted.size(); ++i) shifted[i] += bias[i % bias.size()];
      expect_close(got[0], expected, tolerance(dtype));
      expect_close(got[1], shifted, tolerance(dtype));
      expect_close(got[2], expected, tolerance(Dtype::f32));
      expect_close(got[3], shifted, tolerance(Dtype::f32));
    }
}

TEST_P(GemmTest, Nn) {
  for (const Dtype dtype : kElementTypes)
    for (const GemmSize size : kGemmSizes) {
      SCOPED_TRACE(name(dtype, size));
      const Values a = random_values(size.m * size.k, dtype, 1), b = random_values(size.k * size.n, dtype, 2);
      const auto got = run(GetParam(), [&](Bench& bench) {
        const Tensor as = bench.input(a, {size.m, size.k}, dtype),
                     bs = bench.input(b, {size.k, size.n}, dtype);
        Tensor c = bench.output({size.m, size.n}, dtype), wide = bench.output({size.m, size.n}, Dtype::f32);
        bench.kernels().gemm.nn(bench.queue(), c, as, bs);
        bench.kernels().gemm.nn(bench.queue(), wide, as, bs);
        return std::vector{c, wide};
      });
      const Values expected = product(
          size, [&](int64_t i, int64_t l) { return a[static_cast<size_t>(i * size.k + l)]; },
          [&](int64_t l, int64_t j) { return b[static_cast<size_t>(l * size.n + j)]; });
      expect_close(got[0], expected, tolerance(dtype));
      expect_close(got[1], expected, tolerance(Dtype::f32));
    }
}

// With a residual a product has the bits of an addition after it, also where k is cut and where that is what happens.
TEST_P(GemmTest, AddsAResidualAsTheKernelAfterItWould) {
  std::vector<GemmSize> sizes(std::begin(kGemmSizes), std::end(kGemmSizes));
  sizes.insert(sizes.end(), {{70, 97, 1300}, {33, 161, 2050}});
  for (const Dtype dtype : kElementTypes)
    for (const GemmSize size : sizes) {
      SCOPED_TRACE(name(dtype, size));
      const Values a = random_values(size.m * size.k, dtype, 1), b = random_values(size.n * size.k, dtype, 2);
      const Values bias = random_values(size.n, dtype, 3), h = random_values(size.m * size.n, dtype, 4);
      const auto got = run(GetParam(), [&](Bench& bench) {
        const Tensor as = bench.input(a, {size.m, size.k}, dtype), shift = bench.input(bias, {size.n}, dtype);
        const Tensor bt = bench.input(b, {size.n, size.k}, dtype),
                     bs = bench.input(b, {size.k, size.n}, dtype);
        const Tensor residual = bench.input(h, {size.m, size.n}, dtype);
        const KernelTable& kernel = bench.kernels();
        Queue& queue = bench.queue();
        std::vector<Tensor> all;
        for (int i = 0; i < 4; ++i) all.push_back(bench.output({size.m, size.n}, dtype));
        kernel.gemm.nt_add(queue, all[0], as, bt, &shift, residual);
        kernel.gemm.nt(queue, all[1], as, bt, &shift);
        kernel.elementwise.add(queue, all[1], residual, all[1]);
        kernel.gemm.nn_add(queue, all[2], as, bs, residual);
        kernel.gemm.nn(queue, all[3], as, bs);
        kernel.elementwise.add(queue, all[3], residual, all[3]);
        return all;
      });
      if (tests_are_of_cuda()) {  // rounds once
        expect_close(got[0], got[1], 2 * tolerance(dtype));
        expect_close(got[2], got[3], 2 * tolerance(dtype));
        continue;
      }
      EXPECT_EQ(got[0], got[1]) << "nt_add";
      EXPECT_EQ(got[2], got[3]) << "nn_add";
    }
}

TEST_P(GemmTest, NtRopeIsNtAndThenRope) {
  struct Heads {
    int64_t batch, length, heads, head_dim, k, first;
  };
  constexpr Heads kHeads[] = {{1, 1, 1, 2, 3, 0},       {2, 3, 3, 6, 17, 1},    {1, 70, 2, 64, 64, 0},
                              {2, 150, 3, 32, 40, 2},   {3, 33, 1, 256, 96, 0}, {2, 67, 5, 80, 33, 0},
                              {1, 140, 4, 64, 1100, 7}, {2, 0, 2, 8, 4, 0},     {1, 40, 13, 64, 70, 0},
                              {1, 9, 2, 256, 1536, 0}};
  for (const Dtype dtype : kElementTypes)
    for (const Heads& size : kHeads) {
      const int64_t batch = size.batch, length = size.length, heads = size.heads, head_dim = size.head_dim;
      const int64_t k = size.k, first = size.first;
      const int64_t m = batch * length, n = heads * head_dim, positions = first + length + 1;
      SCOPED_TRACE(fmt::format("{} [{},{},{},{}] k {}", name_of(dtype), batch, length, heads, head_dim, k));
      const auto got = run(GetParam(), [&](Bench& bench) {
        const Tensor x = bench.input(random_values(m * k, dtype, 1), {m, k}, dtype);
        const Tensor weight = bench.input(random_values(n * k, dtype, 2), {n, k}, dtype);
        const Tensor bias = bench.input(random_values(n, dtype, 3), {n}, dtype);
        const Shape table{positions, head_dim / 2};
        const Tensor cos = bench.input(random_values(table.numel(), Dtype::f32, 4), table, Dtype::f32);
        const Tensor sin = bench.input(random_values(table.numel(), Dtype::f32, 5), table, Dtype::f32);
        const Shape shape{batch, length, heads, head_dim};
        Tensor fused = bench.output(shape, dtype), plain = bench.output(shape, dtype);
        Tensor rows = plain.view({m, n});
        const KernelTable& kernel = bench.kernels();
        kernel.gemm.nt_rope(bench.queue(), fused, x, weight, &bias, cos, sin, first);
        kernel.gemm.nt(bench.queue(), rows, x, weight, &bias);
        kernel.rope.apply(bench.queue(), plain, plain, cos, sin, first, +1);
        return std::vector<Tensor>{fused, plain};
      });
      EXPECT_EQ(got[0], got[1]);
    }
}

TEST_P(GemmTest, TnAddsToCOrOverwritesIt) {
  for (const Dtype dtype : kElementTypes)
    for (const GemmSize& s : kGemmSizes) {
      const GemmSize size{s.n, s.k,
                          s.m};  // the zero among the sizes is the number of tokens, here the summed length
      SCOPED_TRACE(name(dtype, size));
      const Values a = random_values(size.k * size.m, dtype, 1), b = random_values(size.k * size.n, dtype, 2);
      const Values start = random_values(size.m * size.n, Dtype::f32, 3);
      const auto got = run(GetParam(), [&](Bench& bench) {
        Tensor c = bench.output(start, {size.m, size.n}, Dtype::f32);
        Tensor fresh = bench.output(Values(start.size(), NAN), {size.m, size.n}, Dtype::f32);
        Tensor zero = bench.output(Values(start.size(), 0), {size.m, size.n}, Dtype::f32);
        const Tensor as = bench.input(a, {size.k, size.m}, dtype),
                     bs = bench.input(b, {size.k, size.n}, dtype);
        bench.kernels().gemm.tn(bench.queue(), c, as, bs, true);
        bench.kernels().gemm.tn(bench.queue(), fresh, as, bs, false);
        bench.kernels().gemm.tn(bench.queue(), zero, as, bs, true);
        return std::vector{c, fresh, zero};
      });
      EXPECT_EQ(got[1], got[2]);
      Values expected = product(
          size, [&](int64_t i, int64_t l) { return a[static_cast<size_t>(l * size.m + i)]; },
          [&](int64_t l, int64_t j) { return b[static_cast<size_t>(l * size.n + j)]; });
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += start[i];
      expect_close(got[0], expected, tolerance(Dtype::f32));
    }
}

TEST_P(GemmTest, TnSumsIsTnAndTheSumsOfColumns) {
  std::vector<GemmSize> sizes(std::begin(kGemmSizes), std::end(kGemmSizes));
  sizes.push_back({1100, 70, 200});  // pieces of k, groups of panels
  for (const Dtype dtype : kElementTypes)
    for (const GemmSize& s : sizes) {
      const GemmSize size{s.n, s.k, s.m};
      SCOPED_TRACE(name(dtype, size));
      const Values a = random_values(size.k * size.m, dtype, 1), b = random_values(size.k * size.n, dtype, 2);
      const Values start = random_values(size.m, Dtype::f32, 3);
      const auto got = run(GetParam(), [&](Bench& bench) {
        Tensor c = bench.output({size.m, size.n}, Dtype::f32),
               plain = bench.output({size.m, size.n}, Dtype::f32);
        Tensor sums = bench.output(start, {size.m}, Dtype::f32);
        const Tensor as = bench.input(a, {size.k, size.m}, dtype),
                     bs = bench.input(b, {size.k, size.n}, dtype);
        bench.kernels().gemm.tn(bench.queue(), plain, as, bs, false);
        bench.kernels().gemm.tn_sums(bench.queue(), c, sums, as, bs, false);
        return std::vector{plain, c, sums};
      });
      EXPECT_EQ(got[0], got[1]);
      Values expected = start;
      for (size_t i = 0; i < a.size(); ++i) expected[i % expected.size()] += a[i];
      expect_close(got[2], expected, 2e-5);  // addends of both signs: some sums are small
    }
}

TEST_P(GemmTest, LeadingDimensionsAreFlattened) {
  const GemmSize size{6, 5, 7};
  const Values x = random_values(size.m * size.k, Dtype::f32, 1),
               w = random_values(size.n * size.k, Dtype::f32, 2);
  const auto got = run(GetParam(), [&](Bench& bench) {
    const Tensor deep = bench.input(x, {2, 3, size.k}, Dtype::f32), flat = deep.view({size.m, size.k});
    const Tensor weight = bench.input(w, {size.n, size.k}, Dtype::f32);
    Tensor y = bench.output({2, 3, size.n}, Dtype::f32), y_flat = bench.output({size.m, size.n}, Dtype::f32);
    Tensor dx = bench.output({2, 3, size.k}, Dtype::f32),
           dx_flat = bench.output({size.m, size.k}, Dtype::f32);
    Tensor dw = bench.output(Values(w.size(), 0), {size.n, size.k}, Dtype::f32);
    Tensor dw_flat = bench.output(Values(w.size(), 0), {size.n, size.k}, Dtype::f32);
    const GemmKernels& gemm = bench.kernels().gemm;
    gemm.nt(bench.queue(), y, deep, weight, nullptr);
    gemm.nt(bench.queue(), y_flat, flat, weight, nullptr);
    gemm.nn(bench.queue(), dx, y, weight);
    gemm.nn(bench.queue(), dx_flat, y_flat, weight);
    gemm.tn(bench.queue(), dw, y, deep, true);
    gemm.tn(bench.queue(), dw_flat, y_flat, flat, true);
    return std::vector{y, y_flat, dx, dx_flat, dw, dw_flat};
  });
  EXPECT_EQ(got[0], got[1]);
  EXPECT_EQ(got[2], got[3]);
  EXPECT_EQ(got[4], got[5]);
}

TEST_P(GemmTest, MismatchesAreNamed) {
  Bench bench(GetParam(), 1);
  Tensor c = bench.output({2, 3}, Dtype::f32);
  const Tensor a = bench.input(Values(8, 1), {2, 4}, Dtype::f32),
               b = bench.input(Values(15, 1), {3, 5}, Dtype::f32);
  const Tensor half = bench.input(Values(12, 1), {3, 4}, Dtype::bf16);
  const Tensor fits = bench.input(Values(12, 1), {3, 4}, Dtype::f32);
  Tensor small = bench.output({2, 2}, Dtype::f32), half_c = bench.output({2, 3}, Dtype::bf16);
  const GemmKernels& gemm = bench.kernels().gemm;
  Queue& queue = bench.queue();
  EXPECT_NE(error_of([&] { gemm.nt(queue, c, a, b, nullptr); }).find("gemm.nt"), std::string::npos);
  EXPECT_NE(error_of([&] { gemm.nt(queue, c, a, half, nullptr); }).find("bf16"), std::string::npos);
  EXPECT_NE(error_of([&] { gemm.nt(queue, small, a, fits, nullptr); }).find("[2,2]"), std::string::npos);
  EXPECT_NE(error_of([&] { gemm.nt(queue, half_c, a, fits, nullptr); }).find("gemm.nt"), std::string::npos);
  EXPECT_NE(error_of([&] { gemm.nt(queue, c, a, fits, &a); }).find("bias"), std::string::npos);
  EXPECT_NE(error_of([&] { gemm.nn(queue, c, a, fits); }).find("gemm.nn"), std::string::npos);
  EXPECT_NE(error_of([&] { gemm.tn(queue, c, a, fits, true); }).find("gemm.tn"), std::string::npos);
  EXPECT_NE(error_of([&] { gemm.tn(queue, half_c, half, half, false); }).find("gemm.tn"), std::string::npos);
}

// Sizes at which kernels cut k into several depths and c into several blocks, and pack panels in groups.
TEST_P(GemmTest, LongAndWide) {
  constexpr GemmSize kLong[] = {{33, 65, 3100}, {70, 900, 40}, {1030, 40, 40}, {70, 40, 1100}};
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (const GemmSize size : kLong) {
      SCOPED_TRACE(name(dtype, size));
      const Values a = random_values(size.m * size.k, dtype, 1), b = random_values(size.n * size.k, dtype, 2);
      const Values bias = random_values(size.n, dtype, 3);
      const auto at = [](const Values& x, int64_t row, int64_t column, int64_t width) {
        return x[static_cast<size_t>(row * width + column)];
      };
      const auto got = run(GetParam(), [&](Bench& bench) {
        const GemmKernels& gemm = bench.kernels().gemm;
        const Tensor shift = bench.input(bias, {size.n}, dtype);
        Tensor nt = bench.output({size.m, size.n}, Dtype::f32),
               rounded = bench.output({size.m, size.n}, dtype);
        Tensor nn = bench.output({size.m, size.n}, Dtype::f32);
        Tensor tn =
            bench.output(Values(static_cast<size_t>(size.m * size.n), 1), {size.m, size.n}, Dtype::f32);
        const Tensor as = bench.input(a, {size.m, size.k}, dtype),
                     bs = bench.input(b, {size.n, size.k}, dtype);
        gemm.nt(bench.queue(), nt, as, bs, &shift);
        gemm.nt(bench.queue(), rounded, as, bs, &shift);
        gemm.nn(bench.queue(), nn, as, bs.view({size.k, size.n}));
        gemm.tn(bench.queue(), tn, as.view({size.k, size.m}), bs.view({size.k, size.n}), true);
        return std::vector{nt, rounded, nn, tn};
      });
      Values nt = product(
          size, [&](int64_t i, int64_t l) { return at(a, i, l, size.k); },
          [&](int64_t l, int64_t j) { return at(b, j, l, size.k); });
      const Values nn = product(
          size, [&](int64_t i, int64_t l) { return at(a, i, l, size.k); },
          [&](int64_t l, int64_t j) { return at(b, l, j, size.n); });
      Values tn = product(
          size, [&](int64_t i, int64_t l) { return at(a, l, i, size.m); },
          [&](int64_t l, int64_t j) { return at(b, l, j, size.n); });
      for (size_t i = 0; i < nt.size(); ++i) nt[i] += bias[i % bias.size()];
      for (double& value : tn) ++value;
      expect_close(got[0], nt, tolerance(Dtype::f32));
      expect_close(got[1], nt, tolerance(dtype));
      expect_close(got[2], nn, tolerance(Dtype::f32));
      expect_close(got[3], tn, tolerance(Dtype::f32));
    }
}

// Batching changes no bits: a row of c does not depend on how many other rows there are.
TEST_P(GemmTest, RowsDoNotDependOnEachOther) {
  if (tests_are_of_cuda() && !device_is_emulated())
    GTEST_SKIP() << "the vendor's library chooses by the number of rows";
  constexpr int64_t kRows = 300, kColumns = 100, kDepth = 850, kFirst = 37, kCount = 70;
  for (const Dtype dtype : kElementTypes) {
    SCOPED_TRACE(name_of(dtype));
    const Values a = random_values(kRows * kDepth, dtype, 1), b = random_values(kColumns * kDepth, dtype, 2);
    const auto got = run(GetParam(), [&](Bench& bench) {
      const Tensor as = bench.input(a, {kRows, kDepth}, dtype),
                   bs = bench.input(b, {kColumns, kDepth}, dtype);
      Tensor all = bench.output({kRows, kColumns}, Dtype::f32),
             some = bench.output({kCount, kColumns}, Dtype::f32);
      bench.kernels().gemm.nt(bench.queue(), all, as, bs, nullptr);
      bench.kernels().gemm.nt(bench.queue(), some, as.slice(kFirst, kFirst + kCount), bs, nullptr);
      return std::vector{all.slice(kFirst, kFirst + kCount), some};
    });
    EXPECT_EQ(got[0], got[1]);
  }
}

// Where k comes in ranges, rows of a wide c are made in slabs: those of the second are what they are by themselves.
TEST(GemmSlabs, RowsAreWhatTheyAreByThemselves) {
  if (best_isa() < Isa::amx) GTEST_SKIP() << "this machine has no amx";
  constexpr int64_t kRows = 1100, kColumns = 4200, kDepth = 1100, kFirst = 990, kCount = 80;
  const Values a = random_values(kRows * kDepth, Dtype::bf16, 1),
               b = random_values(kColumns * kDepth, Dtype::bf16, 2),
               residual = random_values(kRows * kColumns, Dtype::bf16, 3);
  Values turned(static_cast<size_t>(kDepth * kRows)), turned_some(static_cast<size_t>(kDepth * kCount));
  for (int64_t l = 0; l < kDepth; ++l)
    for (int64_t i = 0; i < kRows; ++i) {
      const double value = a[static_cast<size_t>(i * kDepth + l)];
      turned[static_cast<size_t>(l * kRows + i)] = value;
      if (i >= kFirst && i < kFirst + kCount)
        turned_some[static_cast<size_t>(l * kCount + i - kFirst)] = value;
    }
  const auto got = run(Isa::amx, [&](Bench& bench) {
    const GemmKernels& gemm = bench.kernels().gemm;
    Queue& queue = bench.queue();
    const Tensor as = bench.input(a, {kRows, kDepth}, Dtype::bf16),
                 bs = bench.input(b, {kColumns, kDepth}, Dtype::bf16),
                 added = bench.input(residual, {kRows, kColumns}, Dtype::bf16);
    const Tensor at = bench.input(turned, {kDepth, kRows}, Dtype::bf16),
                 at_some = bench.input(turned_some, {kDepth, kCount}, Dtype::bf16);
    const int64_t end = kFirst + kCount;
    Tensor nt = bench.output({kRows, kColumns}, Dtype::bf16),
           nt_some = bench.output({kCount, kColumns}, Dtype::bf16),
           tn = bench.output({kRows, kColumns}, Dtype::f32),
           tn_some = bench.output({kCount, kColumns}, Dtype::f32), sums = bench.output({kRows}, Dtype::f32),
           sums_some = bench.output({kCount}, Dtype::f32);
    for (Tensor* x : {&tn, &tn_some, &sums, &sums_some}) fill_zero(*x);
    gemm.nt_add(queue, nt, as, bs, nullptr, added);
    gemm.nt_add(queue, nt_some, as.slice(kFirst, end), bs, nullptr, added.slice(kFirst, end));
    const Tensor bt = bs.view({kDepth, kColumns});
    gemm.tn_sums(queue, tn, sums, at, bt, true);
    gemm.tn_sums(queue, tn_some, sums_some, at_some, bt, true);
    return std::vector{nt.slice(kFirst, end),   nt_some,  tn.slice(kFirst, end), tn_some,
                       sums.slice(kFirst, end), sums_some};
  });
  EXPECT_EQ(got[0], got[1]);
  EXPECT_EQ(got[2], got[3]);
  EXPECT_EQ(got[4], got[5]);
}

// f32 on tiles is made of bf16 parts; what it says is still f32, and NaN stays NaN.
TEST(GemmSplit, IsAsExactAsMultiplyAddsAndKeepsNan) {
  if (best_isa() < Isa::amx) GTEST_SKIP() << "this machine has no amx";
  constexpr int64_t kRows = 40, kColumns = 70, kDepth = 768;
  Values a = random_values(kRows * kDepth, Dtype::f32, 1);
  const Values b = random_values(kColumns * kDepth, Dtype::f32, 2);
  const auto nt = [&](Isa isa) {
    return run(isa, [&](Bench& bench) {
      Tensor c = bench.output({kRows, kColumns}, Dtype::f32);
      bench.kernels().gemm.nt(bench.queue(), c, bench.input(a, {kRows, kDepth}, Dtype::f32),
                              bench.input(b, {kColumns, kDepth}, Dtype::f32), nullptr);
      return std::vector{c};
    })[0];
  };
  const Values expected = product(
      {kRows, kColumns, kDepth}, [&](int64_t i, int64_t l) { return a[static_cast<size_t>(i * kDepth + l)]; },
      [&](int64_t l, int64_t j) { return b[static_cast<size_t>(j * kDepth + l)]; });
  const auto error = [&](const Values& got) {
    double sum = 0;
    for (size_t i = 0; i < got.size(); ++i) sum += (got[i] - expected[i]) * (got[i] - expected[i]);
    return std::sqrt(sum / static_cast<double>(got.size()) / kDepth);
  };
  const double tiles = error(nt(Isa::amx)), plain = error(nt(Isa::avx512));
  EXPECT_LT(tiles, 1.2 * plain);
  EXPECT_LT(tiles, 2e-7);
  a[5 * kDepth + 700] = std::numeric_limits<double>::quiet_NaN();
  const Values spoilt = nt(Isa::amx);
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kColumns; ++j)
      EXPECT_EQ(std::isnan(spoilt[static_cast<size_t>(i * kColumns + j)]), i == 5);
}

// Not every candidate is the first choice for a shape and a type on the machine that tests it.
TEST(GemmCandidates, EachComputesWhatItDoesNotRefuse) {
  struct Layout {
    int64_t a_row, a_col, b_row, b_col;
    bool accumulate;
  };
  const GemmSize size{5, 70, 100};
  const Layout layouts[] = {
      {size.k, 1, 1, size.k, false}, {size.k, 1, size.n, 1, false}, {1, size.m, size.n, 1, true}};
  for (const Dtype dtype : kElementTypes)
    for (const Layout& layout : layouts) {
      const auto type = dtype == Dtype::f32 ? kF32 : dtype == Dtype::bf16 ? kBf16 : kF16;
      const Values a = random_values(size.m * size.k, dtype, 1), b = random_values(size.n * size.k, dtype, 2);
      const Values start = random_values(size.m * size.n, Dtype::f32, 3);
      const GemmProblem problem{size.m,       size.n,       size.k, layout.a_row, layout.a_col,
                                layout.b_row, layout.b_col, type,   kF32,         layout.accumulate};
      Values expected = product(
          size,
          [&](int64_t i, int64_t l) { return a[static_cast<size_t>(i * layout.a_row + l * layout.a_col)]; },
          [&](int64_t l, int64_t j) { return b[static_cast<size_t>(l * layout.b_row + j * layout.b_col)]; });
      for (size_t i = 0; layout.accumulate && i < expected.size(); ++i) expected[i] += start[i];
      for (const GemmCandidate* candidate : gemm_candidates()) {
        SCOPED_TRACE(fmt::format("{} {}", candidate->name, name(dtype, size)));
        if (!candidate->refuses(problem, best_isa()).empty()) continue;
        const auto got = run(best_isa(), [&](Bench& bench) {
          const Tensor as = bench.input(a, {size.m * size.k}, dtype),
                       bs = bench.input(b, {size.n * size.k}, dtype);
          Tensor c = bench.output(start, {size.m, size.n}, Dtype::f32);
          candidate->run(bench.queue(), bench.arena(), problem, {as.raw(), bs.raw(), nullptr, c.raw()});
          return std::vector{c};
        });
        expect_close(got[0], expected, tolerance(Dtype::f32));
      }
    }
}

// With weights held, in both forms, over several pieces of k; and after they have changed.
TEST_P(GemmTest, WeightsPackedOnceGiveTheSameBits) {
  for (const GemmSize size : {GemmSize{70, 100, 2100}, GemmSize{300, 1000, 40}, GemmSize{33, 31, 31}}) {
    SCOPED_TRACE(name(Dtype::bf16, size));
    const auto products = [&](bool hold) {
      return run(GetParam(), [&](Bench& bench) {
        const auto [m, n, k] = size;
        const Tensor x = bench.input(random_values(m * k, Dtype::bf16, 1), {m, k}, Dtype::bf16);
        const Tensor dy = bench.input(random_values(m * n, Dtype::bf16, 2), {m, n}, Dtype::bf16);
        const Tensor weight = bench.input(random_values(n * k, Dtype::bf16, 3), {n, k}, Dtype::bf16);
        const Tensor other = bench.input(random_values(n * k, Dtype::bf16, 4), {n, k}, Dtype::bf16);
        PackedWeights packed(weight.arena());
        if (hold) packed.hold(weight);
        std::vector<Tensor> outputs;
        for (int step = 0; step < 2; ++step) {
          const PackedWeights::Scope scope(packed, bench.queue());
          for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
            outputs.push_back(bench.output({m, n}, Dtype::bf16));
            bench.kernels().gemm.nt(bench.queue(), outputs.back(), x, weight, nullptr);
            outputs.push_back(bench.output({m, k}, Dtype::bf16));
            bench.kernels().gemm.nn(bench.queue(), outputs.back(), dy, weight);
          }
          std::memcpy(weight.raw(), other.raw(), weight.size_bytes());
        }
        return outputs;
      });
    };
    EXPECT_EQ(products(true), products(false));
  }
}

}  // namespace
}  // namespace athanor::tests::gemm_test
