// What make_mask does with any rule: sharing of bits, wide blocks, runs of positions, queries that see nothing.
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/base/philox.h"
#include "masks/mask_check.h"

namespace athanor::tests::attention_mask_test {
namespace {

using namespace athanor::tests::masks;

// A rule by a table of pairs; past its end all is seen, which make_mask has to leave out.
class TableRule : public MaskRule {
 public:
  explicit TableRule(const Pairs& pairs) : pairs_(pairs) {}
  uint64_t row(int64_t query, int64_t first_key) const override {
    uint64_t keys = 0;
    for (int64_t j = 0; j < 64; ++j)
      if (first_key + j >= pairs_.n() || pairs_(query, first_key + j)) keys |= uint64_t{1} << j;
    return keys;
  }

 private:
  const Pairs& pairs_;
};

Pairs random_pairs(int64_t n, uint32_t of_256) {
  const RandomStream stream(9, "pairs");
  Pairs pairs(n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      pairs.set(i, j, stream.word(static_cast<uint64_t>(i * n + j), of_256) % 256 < of_256);
  return pairs;
}

TEST(AttentionMaskTest, AnyPairsComeBack) {
  for (const int64_t n : {1, 63, 64, 65, 130, 300})
    for (const uint32_t of_256 : {0u, 1u, 128u, 256u}) {
      const Pairs pairs = random_pairs(n, of_256);
      const MaskPositions whole{{{0, n}}, {{0, n}}},
          parts{{{n / 2, n - n / 2}, {0, n / 3}}, {{0, n / 2}, {n / 2, n - n / 2}}};
      for (const MaskPositions& positions : {whole, parts}) {
        const TableRule rule(pairs);
        const AttentionMask mask = make_mask(positions, {&rule}, {0});
        ASSERT_EQ(difference(mask, 0, positions, pairs), "") << n << " " << of_256;
      }
    }
}

TEST(AttentionMaskTest, EqualBlocksShareBitsAcrossRules) {
  // The same 64 x 64 pairs again and again.
  Pairs tiles(256);
  const Pairs tile = random_pairs(64, 100);
  for (int64_t i = 0; i < 256; ++i)
    for (int64_t j = 0; j < 256; ++j) tiles.set(i, j, tile(i % 64, j % 64));
  const TableRule one(tiles), other(tiles);
  const AttentionMask mask = make_mask({{{0, 256}}, {{0, 256}}}, {&one, &other}, {1, 0, 1});
  for (int64_t rule = 0; rule < 2; ++rule)
    for (int64_t query = 0; query < 4; ++query)
      for (const AttentionMask::Block& block : mask.keys_of(rule, query)) EXPECT_EQ(block.bits, 0);
  EXPECT_EQ(mask.heads(), 3);
  EXPECT_EQ(mask.rule_of(0), 1);
  EXPECT_EQ(mask.pairs_of_all_heads(), 3 * mask.figures(0).pairs);
}

TEST(AttentionMaskTest, QueriesWithoutKeysAreCounted) {
  Pairs pairs(150);
  for (int64_t i = 0; i < 150; ++i) pairs.set(i, 3, i != 70 && i != 149);
  const TableRule rule(pairs);
  const AttentionMask mask = make_mask({{{0, 150}}, {{0, 150}}}, {&rule}, {0});
  EXPECT_EQ(mask.figures(0).queries_without_keys, 2);
  EXPECT_EQ(mask.figures(0).first_without_keys, 70);
  const AttentionMask none = make_mask({{{0, 150}}, {{64, 64}}}, {&rule}, {0});
  EXPECT_EQ(none.figures(0).queries_without_keys, 150);
  EXPECT_EQ(none.figures(0).first_without_keys, 0);
  EXPECT_FALSE(none.wide_pair(0, 0, 0));
}

TEST(AttentionMaskTest, NothingAtAllIsAMask) {
  const Pairs pairs(0);
  const TableRule rule(pairs);
  const AttentionMask mask = make_mask({}, {&rule}, {0, 0});
  EXPECT_EQ(mask.query_blocks(), 0);
  EXPECT_EQ(mask.key_blocks(), 0);
  EXPECT_EQ(mask.figures(0).pairs, 0);
}

TEST(AttentionMaskTest, RefusesWhatDoesNotFit) {
  const Pairs pairs(10);
  const TableRule rule(pairs);
  EXPECT_THROW(make_mask({{{-1, 2}}, {{0, 2}}}, {&rule}, {0}), Error);
  EXPECT_THROW(make_mask({{{0, 2}}, {{0, -2}}}, {&rule}, {0}), Error);
  EXPECT_THROW(make_mask({{{0, 2}}, {{0, 2}}}, {&rule}, {1}), Error);
  EXPECT_THROW(make_mask({{{0, 2}}, {{0, 2}}}, {&rule}, {-1}), Error);
}

}  // namespace
}  // namespace athanor::tests::attention_mask_test
