#include "athanor/base/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "athanor/base/cpu.h"
#include "athanor/base/random_rows.h"

namespace athanor::tests::philox_test {
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

// Against the formula itself, at the ends of both words and at the borders between quarters of a turn.
TEST(Normals, AreThoseOfBoxAndMuller) {
  const std::vector<uint32_t> special = {0,          1,          2,          0x1fffffff, 0x20000000,
                                         0x5fffffff, 0x60000000, 0x7fffffff, 0x80000000, 0xb504f333,
                                         0xb504f334, 0xe0000000, 0xfffffffe, 0xffffffff};
  std::vector<uint32_t> words;
  for (const uint32_t a : special)
    for (const uint32_t b : special) words.insert(words.end(), {a, b});
  const RandomStream stream(5, "words");
  for (uint64_t i = 0; i < 4000; ++i) words.push_back(stream.word(i, 0));
  std::vector<float> got(words.size());
  generic_random_rows.normals(words.data(), words.size() / 2, 1.0f, got.data());
  for (size_t i = 0; i < words.size(); i += 2) {
    const double radius = std::sqrt(-2.0 * std::log((words[i] + 1.0) * 0x1p-32));
    const double angle = words[i + 1] * 0x1p-32 * 6.283185307179586;
    EXPECT_NEAR(got[i], radius * std::cos(angle), 4e-7) << words[i] << " " << words[i + 1];
    EXPECT_NEAR(got[i + 1], radius * std::sin(angle), 4e-7) << words[i] << " " << words[i + 1];
  }
}

TEST(Normals, HaveTheSameBitsOnEveryInstructionSet) {
  std::vector<uint32_t> words;
  const RandomStream stream(6, "words");
  for (uint64_t i = 0; i < 2 * 1037; ++i) words.push_back(stream.word(i, 0));
  std::vector<float> expected(words.size());
  generic_random_rows.normals(words.data(), words.size() / 2, 0.02f, expected.data());
  const auto same = [&](const RandomRows& rows) {
    std::vector<float> got(words.size());
    rows.normals(words.data(), words.size() / 2, 0.02f, got.data());
    return got == expected;
  };
  EXPECT_TRUE(best_isa() < Isa::avx2 || same(avx2_random_rows));
  EXPECT_TRUE(best_isa() < Isa::avx512 || same(avx512_random_rows));
}

TEST(RandomStream, MakesManyBlocksAsItMakesOne) {
  const RandomStream stream(8, "blocks");
  for (const RandomRows* rows : {&generic_random_rows, &avx2_random_rows, &avx512_random_rows}) {
    if (best_isa() < Isa::avx2 && rows == &avx2_random_rows) continue;
    if (best_isa() < Isa::avx512 && rows == &avx512_random_rows) continue;
    for (const uint64_t first : {uint64_t{0}, uint64_t{5}, (uint64_t{1} << 32) - 7}) {
      std::vector<uint32_t> words(4 * 75 + 1, 1);
      rows->blocks(stream.key(), first, 75, words.data());
      for (uint64_t i = 0; i < 75; ++i)
        for (size_t w = 0; w < 4; ++w) EXPECT_EQ(words[4 * i + w], stream.block(first + i, 0)[w]);
      EXPECT_EQ(words.back(), 1u);
    }
  }
}

// Element by element or in one go, from any first element on.
TEST(RandomStream, FillsWithItsNormals) {
  const RandomStream stream(7, "fill");
  for (const uint64_t first : {0u, 1u, 3u, 4u, 1021u})
    for (const uint64_t count : {0u, 1u, 2u, 5u, 8u, 513u, 1300u}) {
      std::vector<float> got(count + 1, -1.0f);
      stream.fill_normal(got.data(), first, count, 0.5f);
      for (uint64_t i = 0; i < count; ++i)
        EXPECT_EQ(got[i], 0.5f * stream.normal(first + i, 0)) << first << " " << count << " " << i;
      EXPECT_EQ(got[count], -1.0f);
    }
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
}  // namespace athanor::tests::philox_test
