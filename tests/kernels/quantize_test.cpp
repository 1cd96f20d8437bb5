// 8-bit blocks: which code an element gets, how near its value is, that coding it again changes nothing, and what must
// not become zero.
#include "athanor/kernels/quantize.h"

#include <cmath>

#include "kernels/kernel_test.h"

namespace athanor::tests::quantize_test {
namespace {

constexpr CodeMap kMaps[] = {CodeMap::plain, CodeMap::root};

struct Coded {
  Values codes, scales, values;
  bool operator==(const Coded&) const = default;
};

Coded code(const Values& x, CodeMap map) {
  const int64_t n = std::ssize(x), blocks = (n + kQuantizeBlock - 1) / kQuantizeBlock;
  const std::vector<Values> got = run(best_isa(), [&](Bench& bench) {
    Tensor codes = bench.output({n}, Dtype::u8), scales = bench.output({blocks}, Dtype::f32);
    Tensor values = bench.output({n}, Dtype::f32);
    const QuantizeKernels& kernel = bench.kernels().quantize;
    kernel.encode(bench.queue(), codes, scales, bench.input(x, {n}, Dtype::f32), map);
    kernel.decode(bench.queue(), values, codes, scales, map);
    return std::vector{codes, scales, values};
  });
  return {got[0], got[1], got[2]};
}

// Values of many magnitudes; of CodeMap::root squares.
Values input(int64_t n, CodeMap map, double decades, double size = 1) {
  Values x = random_values(n, Dtype::f32, 1);
  const Values exponents = random_values(n, Dtype::f32, 2);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] *= size * std::pow(10.0, -decades * std::abs(exponents[i]));
    x[i] = round_to(map == CodeMap::root ? x[i] * x[i] : x[i], Dtype::f32);
  }
  return x;
}

// The values of a map, by the words of its header.
std::vector<float> values_of_codes(CodeMap map) {
  std::vector<float> values{0.0f};
  for (int decade = 6; decade >= 0; --decade) {
    const int count = (map == CodeMap::plain ? 64 : 128) >> decade;
    for (int i = 1; i <= count; ++i)
      values.push_back(static_cast<float>((0.1 + 0.9 * i / count) * std::pow(10.0, -decade)));
  }
  return values;
}

// Of an element whose block has that scale: the first of the nearest.
int expected_code(float x, float scale, CodeMap map, const std::vector<float>& values) {
  if (scale == 0.0f) return 0;
  const float magnitude = map == CodeMap::plain ? std::abs(x) : std::sqrt(x), t = magnitude / scale;
  int code = 0;
  while (code + 1 < std::ssize(values) &&
         (values[static_cast<size_t>(code)] + values[static_cast<size_t>(code + 1)]) / 2 < t)
    ++code;
  if (map == CodeMap::root && magnitude > 0.0f) code = std::max(code, 1);
  if (values[static_cast<size_t>(code)] * scale < kQuantizeTiny) return 0;
  return map == CodeMap::plain && x < 0.0f ? code + 128 : code;
}

TEST(Quantize, EveryElementHasTheNearestCode) {
  for (const CodeMap map : kMaps) {
    const std::vector<float> values = values_of_codes(map);
    for (const int64_t n : {1, 5, 255, 256, 257, 4095, 4096, 4097, 10000}) {
      const Values x = input(n, map, 4.0);
      const Coded coded = code(x, map);
      for (int64_t first = 0; first < n; first += kQuantizeBlock) {
        const int64_t end = std::min(n, first + kQuantizeBlock);
        float scale = 0.0f;
        for (int64_t i = first; i < end; ++i)
          scale = std::max(scale, std::abs(static_cast<float>(x[static_cast<size_t>(i)])));
        if (map == CodeMap::root) scale = std::sqrt(scale);
        ASSERT_EQ(coded.scales[static_cast<size_t>(first / kQuantizeBlock)], double{scale})
            << n << " " << first;
        for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
          const int expected = expected_code(static_cast<float>(x[i]), scale, map, values);
          ASSERT_EQ(coded.codes[i], expected)
              << "element " << i << " of " << n << ": " << x[i] / double{scale};
          const float value =
              values[static_cast<size_t>(map == CodeMap::plain ? expected % 128 : expected)] * scale;
          const float sign = map == CodeMap::plain && expected >= 128 ? -1.0f : 1.0f;
          ASSERT_EQ(coded.values[i], double{map == CodeMap::plain ? sign * value : value * value})
              << i << " of " << n;
        }
      }
    }
  }
}

TEST(Quantize, IsAsNearAsItsDecadeSays) {
  for (const CodeMap map : kMaps) {
    const Values x = input(50000, map, 2.0);
    const Coded coded = code(x, map);
    const double top = map == CodeMap::plain ? 64 : 128;  // values of the decade below the scale
    for (size_t i = 0; i < x.size(); ++i) {
      const double scale = coded.scales[i / static_cast<size_t>(kQuantizeBlock)];
      double value = x[i], got = coded.values[i];
      if (map == CodeMap::root) value = std::sqrt(value), got = std::sqrt(got);
      const int decade = std::min(6, static_cast<int>(-std::log10(std::abs(value) / scale)));
      // Half of the distance of two codes; at the lower end of a decade the next code is in the one below.
      const double step = 0.9 * scale * std::pow(10.0, -decade) / (top / std::pow(2.0, decade));
      EXPECT_LE(std::abs(got - value), step * 0.5 * (1 + 1e-5) + scale * 1.01e-6) << value / scale;
    }
  }
}

TEST(Quantize, CodedAgainIsTheSame) {
  for (const CodeMap map : kMaps)
    for (const double size : {1.0, 1e-6, 1e-12, 3e-16, 1e-18, 1e-30, 0.0}) {
      const Coded once = code(input(10000, map, 3.0, size), map);
      EXPECT_TRUE(once == code(once.values, map)) << size;
    }
}

TEST(Quantize, TheLargestIsExactAndZeroIsZero) {
  constexpr auto kBlock = static_cast<size_t>(kQuantizeBlock);
  Values x(2 * kBlock + 3);
  x[5] = round_to(-0.37, Dtype::f32);
  x[6] = 0.2;
  x[2 * kBlock + 1] = round_to(1e-9, Dtype::f32);
  const Coded coded = code(x, CodeMap::plain);
  EXPECT_EQ(coded.values[5], x[5]);
  EXPECT_EQ(coded.values[2 * kBlock + 1], x[2 * kBlock + 1]);
  EXPECT_EQ(coded.scales[1], 0.0);
  for (const size_t i : {size_t{0}, kBlock + 7, 2 * kBlock}) EXPECT_EQ(coded.values[i], 0.0);
}

TEST(Quantize, ADivisorNeverVanishes) {
  Values x(static_cast<size_t>(kQuantizeBlock));
  x[0] = 1;
  x[1] = round_to(1e-20, Dtype::f32);  // its root is 1e-10 of the scale: far below the least code
  const Coded coded = code(x, CodeMap::root);
  EXPECT_GT(coded.values[1], 0.0);
  EXPECT_EQ(coded.values[2], 0.0);
}

TEST(Quantize, BlocksDoNotKnowOfEachOther) {
  const int64_t cut = 13 * kQuantizeBlock;
  for (const CodeMap map : kMaps) {
    const Values x = input(40 * kQuantizeBlock + 77, map, 2.0);
    Values codes = code({x.begin(), x.begin() + cut}, map).codes;
    const Values rest = code({x.begin() + cut, x.end()}, map).codes;
    codes.insert(codes.end(), rest.begin(), rest.end());
    EXPECT_EQ(code(x, map).codes, codes);
  }
}

TEST(Quantize, NamesWhatDoesNotFit) {
  Bench bench(best_isa(), 1);
  const Tensor x = bench.input(input(300, CodeMap::plain, 1.0), {300}, Dtype::f32);
  Tensor codes = bench.output({300}, Dtype::u8), scales = bench.output({1}, Dtype::f32);
  EXPECT_EQ(error_of([&] {
              bench.kernels().quantize.encode(bench.queue(), codes, scales, x, CodeMap::plain);
            }).substr(0, 16),
            "quantize.encode:");
}

}  // namespace
}  // namespace athanor::tests::quantize_test
