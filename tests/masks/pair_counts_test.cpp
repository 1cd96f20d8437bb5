// How many pairs patterns see: closed forms, and the published sizes of published models.
#include <gtest/gtest.h>

#include "athanor/masks/pattern.h"

namespace athanor::tests::pair_counts_test {
namespace {

AttentionMask::Figures figures(const std::string& text, int64_t n) {
  return mask_of(AttentionPattern::parse(text), {.positions = {{{0, n}}, {{0, n}}}, .length = n, .heads = 1},
                 0)
      .figures(0);
}
int64_t pairs(const std::string& text, int64_t n) {
  return figures(text, n).pairs;
}
std::string with(const std::string& name, int64_t number) {
  return name + ":" + std::to_string(number);
}

TEST(PairCounts, AreThoseOfTheClosedForms) {
  for (const int64_t n : {1, 2, 63, 64, 65, 129, 1000, 1031}) {
    EXPECT_EQ(pairs("full", n), n * n) << n;
    EXPECT_EQ(pairs("causal", n), n * (n + 1) / 2) << n;
    for (const int64_t w : {1, 17, 62, 64, 500}) {
      if (w >= n) continue;
      EXPECT_EQ(pairs(with("band", w), n), n * (2 * w + 1) - w * (w + 1)) << n << " " << w;
      EXPECT_EQ(pairs(with("window", w), n), n * w - w * (w - 1) / 2) << n << " " << w;
      EXPECT_EQ(pairs("causal + " + with("band", w), n), n * (w + 1) - w * (w + 1) / 2) << n << " " << w;
      EXPECT_EQ(pairs(with("global", w), n), 2 * n * w - w * w) << n << " " << w;
      EXPECT_EQ(pairs(with("prefix", w), n), n * (n + 1) / 2 + w * (w - 1) / 2) << n << " " << w;
    }
  }
  for (const int64_t b : {16, 32, 64}) {
    const int64_t n = 960, m = n / b;
    EXPECT_EQ(pairs(with("block", b), n), n * b);
    EXPECT_EQ(pairs(with("chunk", b), n), n * b);
    EXPECT_EQ(pairs("causal + " + with("chunk", b), n), m * b * (b + 1) / 2);
    EXPECT_EQ(pairs("block_band:" + std::to_string(b) + ",1", n), (3 * m - 2) * b * b);
    EXPECT_EQ(pairs("random:3," + std::to_string(b), n), 3 * n * b);
  }
  // Each query and the keys d, 2 d, ... w d from it, where there are any: n (2 w + 1) less d (1 + ... + w) on each side.
  EXPECT_EQ(pairs("dilated:10,3", 1000), 1000 * 21 - 2 * 3 * 55);
}

TEST(PairCounts, AreThoseOfThePublishedModels) {
  EXPECT_EQ(pairs("band:256 + global:1", 4096), 2'043'134);  // Longformer
  EXPECT_EQ(pairs("global:256 + band:84", 4096 + 256),
            2'847'772);  // ETC, global and long tokens in one sequence
  EXPECT_EQ(pairs("window:4096", 65536), 260'048'896);
  EXPECT_EQ(pairs("causal + window:4096", 65536), 260'048'896);
  EXPECT_EQ(pairs("window:1024", 32768), 33'030'656);  // Gemma 3, five layers of six
  const auto big_bird = figures("global:64,64 + block_band:64,1 + random:3", 4096);
  EXPECT_EQ(big_bird.full_blocks, 622);
  EXPECT_EQ(big_bird.partial_blocks, 0);
  EXPECT_EQ(big_bird.pairs, 622 * 64 * 64);
}

// Of a causal window at most three blocks of each list are seen in part, and their bits are those of a few.
TEST(PairCounts, BlocksInPartShareTheirBits) {
  const int64_t n = 16384;
  const AttentionMask mask = mask_of(AttentionPattern::parse("causal + window:256"),
                                     {.positions = {{{0, n}}, {{0, n}}}, .length = n, .heads = 12}, 0);
  EXPECT_EQ(mask.rules(), 1);
  EXPECT_EQ(mask.figures(0).partial_blocks, 256 + 252);
  EXPECT_EQ(mask.figures(0).full_blocks, 255 + 254 + 253);
  EXPECT_LT(mask.bytes(), 24 * 1024);
  EXPECT_EQ(mask.pairs_of_all_heads(), 12 * mask.figures(0).pairs);
}

}  // namespace
}  // namespace athanor::tests::pair_counts_test
