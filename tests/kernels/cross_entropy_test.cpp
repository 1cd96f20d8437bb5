#include <algorithm>
#include <cmath>

#include "kernels/kernel_test.h"

namespace athanor::tests::cross_entropy_test {
namespace {

using CrossEntropyTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, CrossEntropyTest, row_isas(), isa_test_name);

struct CrossEntropySize {
  int64_t rows, width, classes;
};
constexpr CrossEntropySize kCrossEntropySizes[] = {
    {0, 5, 5}, {1, 1, 1}, {3, 17, 17}, {5, 130, 127}, {2, 1000, 999}, {40, 1300, 1300}, {4, 64, 3}};

struct ExpectedLoss {
  Values loss, gradient;
};
ExpectedLoss expected_loss(const Values& logits, const std::vector<int32_t>& targets,
                           const CrossEntropySize& size, double scale) {
  ExpectedLoss e;
  for (int64_t n = 0; n < size.rows; ++n) {
    const double* row = logits.data() + n * size.width;
    const int32_t target = targets[static_cast<size_t>(n)];
    const double largest = *std::max_element(row, row + size.classes);
    double sum = 0;
    for (int64_t c = 0; c < size.classes; ++c) sum += std::exp(row[c] - largest);
    e.loss.push_back(target < 0 ? 0 : largest + std::log(sum) - row[target]);
    for (int64_t c = 0; c < size.width; ++c) {
      const double probability = c < size.classes ? std::exp(row[c] - largest) / sum : 0;
      e.gradient.push_back(target < 0 ? 0 : scale * (probability - (c == target ? 1 : 0)));
    }
  }
  return e;
}

TEST_P(CrossEntropyTest, LossAndGradientMatchTheirFormula) {
  for (const Dtype dtype : kElementTypes)
    for (const CrossEntropySize& size : kCrossEntropySizes)
      for (const double deviation : {0.5, 30.0}) {
        SCOPED_TRACE(fmt::format("{} [{},{}] of {} deviation {}", name_of(dtype), size.rows, size.width,
                                 size.classes, deviation));
        const float scale = 64;
        const Values logits = random_values(size.rows * size.width, Dtype::f32, 1, deviation);
        std::vector<int32_t> targets = random_ids(size.rows, static_cast<int32_t>(size.classes), 2);
        if (size.rows > 2) {
          targets[0] = static_cast<int32_t>(size.classes) - 1;
          targets[1] = -1;
          targets[2] = -100;
        }
        const auto got = run(GetParam(), [&](Bench& bench) {
          const Shape shape{size.rows, size.width};
          const Tensor in = bench.input(logits, shape, Dtype::f32), target = bench.ids(targets, {size.rows});
          Tensor loss = bench.output({size.rows}, Dtype::f32), alone = bench.output({size.rows}, Dtype::f32);
          Tensor gradient = bench.output(shape, dtype);
          const CrossEntropyKernels& kernels = bench.kernels().cross_entropy;
          kernels.rows(bench.queue(), loss, &gradient, in, target, size.classes, scale);
          kernels.rows(bench.queue(), alone, nullptr, in, target, size.classes, scale);
          Tensor in_place = bench.output(logits, shape, Dtype::f32),
                 again = bench.output({size.rows}, Dtype::f32);
          if (dtype == Dtype::f32)
            kernels.rows(bench.queue(), again, &in_place, in_place, target, size.classes, scale);
          return std::vector{loss, gradient, alone, again, in_place};
        });
        if (dtype == Dtype::f32) {
          EXPECT_EQ(got[3], got[0]);
          EXPECT_EQ(got[4], got[1]);
        }
        const ExpectedLoss e = expected_loss(logits, targets, size, scale);
        expect_close(got[0], e.loss, 2e-6);
        expect_close(got[1], e.gradient, tolerance(dtype));
        expect_close(got[2], e.loss, 2e-6);
        for (size_t i = 0; i < got[1].size(); ++i) {
          const bool padding = static_cast<int64_t>(i) % size.width >= size.classes;
          ASSERT_TRUE(!padding || got[1][i] == 0) << i;
        }
      }
}

// Classes partitioned over three parts, the last of them with padding alone: together the same as in one.
TEST_P(CrossEntropyTest, PartsGiveWhatTheWholeGives) {
  for (const Dtype dtype : kElementTypes) {
    SCOPED_TRACE(name_of(dtype));
    constexpr int64_t kRows = 9, kClasses = 40, kPart = 21;
    const float scale = 8;
    const Values logits = random_values(kRows * kClasses, Dtype::f32, 1, 5.0);
    std::vector<int32_t> targets = random_ids(kRows, kClasses, 2);
    targets[0] = 20;
    targets[1] = 21;
    targets[2] = -1;
    const auto got = run(GetParam(), [&](Bench& bench) {
      const CrossEntropyKernels& kernels = bench.kernels().cross_entropy;
      const Tensor target = bench.ids(targets, {kRows});
      std::vector<Tensor> results;
      std::vector<Values> parts;
      std::vector<ClassRange> ranges;
      Values together(kRows * 3, 0);
      std::vector<Tensor> statistics;
      for (int64_t first = 0; first < 3 * kPart; first += kPart) {
        const int64_t count = std::clamp<int64_t>(kClasses - first, 0, kPart);
        Values part(kRows * kPart, 3);  // padding is never looked at
        for (int64_t n = 0; n < kRows; ++n)
          for (int64_t c = 0; c < count; ++c)
            part[static_cast<size_t>(n * kPart + c)] = logits[static_cast<size_t>(n * kClasses + first + c)];
        parts.push_back(part);
        ranges.push_back({first, count, kClasses});
        statistics.push_back(bench.output({kRows, 3}, Dtype::f32));
        kernels.statistics(bench.queue(), statistics.back(), bench.input(part, {kRows, kPart}, Dtype::f32),
                           target, ranges.back());
      }
      std::vector<Values> found;
      for (const Tensor& x : statistics) found.push_back(values_of(x));
      for (int64_t n = 0; n < kRows; ++n) {
        const auto of = [&](const Values& x, int64_t k) { return x[static_cast<size_t>(n * 3 + k)]; };
        double largest = -HUGE_VAL, sum = 0, at_target = 0;
        for (const Values& x : found) largest = std::max(largest, of(x, 0));
        for (const Values& x : found) {
          sum += of(x, 1) * std::exp(of(x, 0) - largest);
          at_target += of(x, 2);
        }
        together[static_cast<size_t>(n * 3)] = largest;
        together[static_cast<size_t>(n * 3 + 1)] = round_to(sum, Dtype::f32);
        together[static_cast<size_t>(n * 3 + 2)] = at_target;
      }
      const Tensor of_all = bench.input(together, {kRows, 3}, Dtype::f32);
      for (size_t p = 0; p < parts.size(); ++p) {
        Tensor gradient = bench.output({kRows, kPart}, dtype);
        kernels.gradient(bench.queue(), gradient, bench.input(parts[p], {kRows, kPart}, Dtype::f32), of_all,
                         target, ranges[p], scale);
        results.push_back(gradient);
      }
      results.push_back(of_all);
      return results;
    });
    const ExpectedLoss e = expected_loss(logits, targets, {kRows, kClasses, kClasses}, scale);
    Values gradient;
    for (int64_t n = 0; n < kRows; ++n)
      for (int64_t c = 0; c < 3 * kPart; ++c) {
        const double value = got[static_cast<size_t>(c / kPart)][static_cast<size_t>(n * kPart + c % kPart)];
        if (c < kClasses)
          gradient.push_back(value);
        else
          ASSERT_EQ(value, 0) << n << " " << c;
      }
    expect_close(gradient, e.gradient, tolerance(dtype));
    Values loss;
    for (size_t n = 0; n < kRows; ++n)
      loss.push_back(targets[n] < 0 ? 0 : std::log(got[3][n * 3 + 1]) + got[3][n * 3] - got[3][n * 3 + 2]);
    expect_close(loss, e.loss, 2e-6);
  }
}

// Logits that overflow an exponential without its shift, and a vocabulary as large as those of real models.
TEST_P(CrossEntropyTest, LargeLogitsAndVocabularies) {
  const CrossEntropySize size{2, 50304, 50257};
  Values logits = random_values(size.rows * size.width, Dtype::f32, 1);
  for (double& value : logits) value = round_to(value + 5000, Dtype::f32);
  logits[77] = 5200;
  logits[50304 + 50256] = 4000;
  const std::vector<int32_t> targets = {77, 50256};
  const auto got = run(GetParam(), [&](Bench& bench) {
    Tensor loss = bench.output({size.rows}, Dtype::f32), gradient = bench.output({2, size.width}, Dtype::f32);
    bench.kernels().cross_entropy.rows(bench.queue(), loss, &gradient,
                                       bench.input(logits, {2, size.width}, Dtype::f32),
                                       bench.ids(targets, {2}), size.classes, 1);
    return std::vector{loss, gradient};
  });
  const ExpectedLoss e = expected_loss(logits, targets, size, 1);
  expect_close(got[0], e.loss, 2e-6);
  for (int64_t row = 0; row < 2;
       ++row) {  // apart: the second row's probabilities are tiny beside the first's
    const auto first = row * size.width;
    expect_close(Values(got[1].begin() + first, got[1].begin() + first + size.width),
                 Values(e.gradient.begin() + first, e.gradient.begin() + first + size.width), 1e-5);
  }
}

// More classes than a thread's scratch holds powers of, and a maximum that grows from chunk to chunk.
TEST_P(CrossEntropyTest, MoreClassesThanTheScratchHolds) {
  const CrossEntropySize size{2, 530000, 530000};
  Values logits = random_values(size.rows * size.width, Dtype::f32, 1);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = round_to(logits[i] + static_cast<double>(i % 530000) / 10000, Dtype::f32);
  const std::vector<int32_t> targets = {77, 529999};
  for (const Dtype dtype : kElementTypes) {
    const auto got = run(GetParam(), [&](Bench& bench) {
      Tensor loss = bench.output({size.rows}, Dtype::f32), gradient = bench.output({2, size.width}, dtype);
      bench.kernels().cross_entropy.rows(bench.queue(), loss, &gradient,
                                         bench.input(logits, {2, size.width}, Dtype::f32),
                                         bench.ids(targets, {2}), size.classes, 64);
      return std::vector{loss, gradient};
    });
    const ExpectedLoss e = expected_loss(logits, targets, size, 64);
    expect_close(got[0], e.loss, 2e-6);
    expect_close(got[1], e.gradient, tolerance(dtype));
  }
}

TEST_P(CrossEntropyTest, NotFiniteLogitsShow) {
  for (const double bad : {std::nan(""), HUGE_VAL})
    for (const size_t place : {0u, 16u, 36u}) {
      Values logits(37, 0.25);
      logits[place] = bad;
      const auto got = run(GetParam(), [&](Bench& bench) {
        Tensor loss = bench.output({1}, Dtype::f32), gradient = bench.output({1, 37}, Dtype::f32);
        bench.kernels().cross_entropy.rows(bench.queue(), loss, &gradient,
                                           bench.input(logits, {1, 37}, Dtype::f32), bench.ids({5}, {1}), 37,
                                           1);
        return std::vector{loss, gradient};
      });
      EXPECT_FALSE(std::isfinite(got[0][0])) << bad << " at " << place;
      EXPECT_FALSE(std::isfinite(got[1][place])) << bad << " at " << place;
    }
}

TEST_P(CrossEntropyTest, TargetBeyondTheClassesIsNamed) {
  Bench bench(GetParam(), 1);
  Tensor loss = bench.output({2}, Dtype::f32);
  const Tensor logits = bench.input(Values(20, 1), {2, 10}, Dtype::f32), targets = bench.ids({3, 9}, {2});
  EXPECT_EQ(error_of([&] {
              bench.kernels().cross_entropy.rows(bench.queue(), loss, nullptr, logits, targets, 9, 1);
            }),
            "cross_entropy.rows: target 9 of row 1, expected less than 9");
}

}  // namespace
}  // namespace athanor::tests::cross_entropy_test
