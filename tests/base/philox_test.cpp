#include "athanor/base/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace athanor {
namespace {

// Known answers of the authors' test vectors (Random123, philox4x32-10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0), (Philox4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, ~uint64_t{0}),
            (Philox4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Philox4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, DependsOnEveryPartOfTheAddress) {
  const RandomStream a(1, "w");
  EXPECT_EQ(a.word(5, 7), RandomStream(1, "w").word(5, 7));
  EXPECT_NE(a.word(5, 7), a.word(6, 7));
  EXPECT_NE(a.word(5, 7), a.word(5, 8));
  EXPECT_NE(a.word(5, 7), RandomStream(2, "w").word(5, 7));
  EXPECT_NE(a.word(5, 7), RandomStream(1, "v").word(5, 7));
}

TEST(RandomStream, NormalHasUnitMoments) {
  const RandomStream stream(3, "normal");
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = stream.normal(static_cast<uint64_t>(i), 0);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.01);
  EXPECT_NEAR(squares / kCount, 1.0, 0.02);
}

TEST(Permutation, IsABijectionOfEverySize) {
  for (const uint64_t size : {1u, 2u, 3u, 5u, 16u, 17u, 1000u, 4097u}) {
    const Permutation permutation(size, 42);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i) {
      EXPECT_LT(permutation(i), size);
      seen.insert(permutation(i));
    }
    EXPECT_EQ(seen.size(), size);
  }
}

TEST(Permutation, ShufflesAndDependsOnItsKey) {
  const Permutation a(1000, 1), b(1000, 2);
  int fixed = 0, same = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    fixed += a(i) == i;
    same += a(i) == b(i);
  }
  EXPECT_LT(fixed, 10);
  EXPECT_LT(same, 10);
}

}  // namespace
}  // namespace athanor
