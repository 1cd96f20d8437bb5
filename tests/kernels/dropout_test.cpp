#include <cmath>

#include "athanor/base/philox.h"
#include "kernels/kernel_test.h"

namespace athanor::tests::dropout_test {
namespace {

using DropoutTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, DropoutTest, row_isas(), isa_test_name);

constexpr uint64_t kKey = 0x0123456789abcdefu, kStep = (uint64_t{1} << 33) + 7;

TEST_P(DropoutTest, DropsTheAddressedElementsAndScalesTheRest) {
  for (const Dtype dtype : kElementTypes)
    for (const int64_t n : {0, 1, 3, 17, 64, 65, 127, 16384 + 9})
      for (const float p : {0.0f, 0.1f, 0.9f})
        // The last ones cross a 32-bit word of the counter.
        for (const uint64_t first : {uint64_t{0}, uint64_t{5}, (uint64_t{1} << 34) - 6}) {
          SCOPED_TRACE(fmt::format("{} n {} p {} first {}", name_of(dtype), n, p, first));
          const Values x = random_values(n, dtype, 1);
          const auto got = run(GetParam(), [&](Bench& bench) {
            Tensor y = bench.output({n}, dtype), in_place = bench.output(x, {n}, dtype);
            const DropoutKernels& kernels = bench.kernels().dropout;
            kernels.apply(bench.queue(), y, bench.input(x, {n}, dtype), p, kKey, kStep, first);
            kernels.apply(bench.queue(), in_place, in_place, p, kKey, kStep, first);
            return std::vector{y, in_place};
          });
          Values expected;
          const RandomStream stream(kKey);
          for (size_t i = 0; i < x.size(); ++i) {
            const bool keep = stream.uniform(first + i, kStep) >= p;
            expected.push_back(keep ? x[i] / (1 - double{p}) : 0);
            ASSERT_EQ(got[0][i] != 0, keep && x[i] != 0) << "at " << i;
          }
          expect_close(got[0], expected, tolerance(dtype));
          EXPECT_EQ(got[0], got[1]);
          EXPECT_TRUE(p > 0 || got[0] == x);
        }
}

// Whoever holds a part of a tensor drops the same elements of it.
TEST_P(DropoutTest, PartsEqualTheWhole) {
  constexpr int64_t kCount = 1000;
  const Values x = random_values(kCount, Dtype::f32, 2);
  for (const int64_t cut : {1, 2, 3, 4, 130, 999}) {
    const auto got = run(GetParam(), [&](Bench& bench) {
      Tensor whole = bench.output({kCount}, Dtype::f32), parts = bench.output({kCount}, Dtype::f32);
      const Tensor in = bench.input(x, {kCount}, Dtype::f32);
      Tensor left = parts.flat(0, cut), right = parts.flat(cut, kCount - cut);
      const DropoutKernels& kernels = bench.kernels().dropout;
      kernels.apply(bench.queue(), whole, in, 0.5f, kKey, kStep, 40);
      kernels.apply(bench.queue(), left, in.flat(0, cut), 0.5f, kKey, kStep, 40);
      kernels.apply(bench.queue(), right, in.flat(cut, kCount - cut), 0.5f, kKey, kStep,
                    40 + static_cast<uint64_t>(cut));
      return std::vector{whole, parts};
    });
    EXPECT_EQ(got[0], got[1]) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace athanor::tests::dropout_test
