// Every kind of term and many compositions, at every length to 130 and at some beyond, against the pairs of the papers'
// definitions (plain_pattern.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "athanor/masks/pattern.h"
#include "masks/mask_check.h"

namespace athanor::tests::pattern_pairs_test {
namespace {

using namespace athanor::tests::masks;

struct Case {
  const char* text;
  PlainPattern plain;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"causal", {.limits = {causal()}}},
      {"full", {}},
      {"prefix:1", {.limits = {prefix(1)}}},
      {"prefix:70", {.limits = {prefix(70)}}},
      {"chunk:1", {.limits = {chunk(1)}}},
      {"chunk:32", {.limits = {chunk(32)}}},
      {"chunk:65 + causal", {.limits = {causal(), chunk(65)}}},
      {"documents:7", {.limits = {documents({7})}}},
      {"documents:1,64,3,30", {.limits = {documents({1, 64, 3, 30})}}},
      {"causal + documents:100,5", {.limits = {causal(), documents({100, 5})}}},
      {"band:1", {.shows = {band(1)}}},
      {"band:16", {.shows = {band(16)}}},
      {"band:64", {.shows = {band(64)}}},
      {"causal + band:63", {.limits = {causal()}, .shows = {band(63)}}},
      {"window:1", {.shows = {window(1)}}},
      {"window:64", {.shows = {window(64)}}},
      {"causal + window:17", {.limits = {causal()}, .shows = {window(17)}}},
      {"dilated:1,1", {.shows = {dilated(1, 1)}}},
      {"dilated:4,1", {.shows = {dilated(4, 1)}}},
      {"dilated:9,2", {.shows = {dilated(9, 2)}}},
      {"dilated:3,31", {.shows = {dilated(3, 31)}}},
      {"dilated:1,64", {.shows = {dilated(1, 64)}}},
      {"dilated:2,65", {.shows = {dilated(2, 65)}}},
      {"causal + dilated:20,3", {.limits = {causal()}, .shows = {dilated(20, 3)}}},
      {"dilated:2,3 + dilated:2,5", {.shows = {dilated(2, 3), dilated(2, 5)}}},
      {"global:1", {.shows = {global(1, 0)}}},
      {"global:0,1", {.shows = {global(0, 1)}}},
      {"global:3,2", {.shows = {global(3, 2)}}},
      {"global:64,64", {.shows = {global(64, 64)}}},
      {"causal + global:0,1", {.limits = {causal()}, .shows = {global(0, 1)}}},
      {"chunk:20 + global:1", {.limits = {chunk(20)}, .shows = {global(1, 0)}}},
      {"block:16", {.shows = {block(16)}}},
      {"block:64", {.shows = {block(64)}}},
      {"block:3 + block:7", {.shows = {block(3), block(7)}}},
      {"block_band:16,1", {.shows = {block_band(16, 1)}}},
      {"block_band:32,2", {.shows = {block_band(32, 2)}}},
      {"causal + block_band:64,1", {.limits = {causal()}, .shows = {block_band(64, 1)}}},
      {"strided:1", {.shows = {strided(1)}}},
      {"strided:5", {.shows = {strided(5)}}},
      {"causal + strided:11", {.limits = {causal()}, .shows = {strided(11)}}},
      {"strided:70", {.shows = {strided(70)}}},
      {"fixed:1,1", {.shows = {fixed(1, 1)}}},
      {"fixed:8,2", {.shows = {fixed(8, 2)}}},
      {"causal + fixed:13,1", {.limits = {causal()}, .shows = {fixed(13, 1)}}},
      {"fixed:100,40", {.shows = {fixed(100, 40)}}},
      {"random:1,16", {.random = 1, .random_block = 16}},
      {"random:2,32", {.random = 2, .random_block = 32}},
      {"causal + random:1", {.limits = {causal()}, .random = 1}},
      {"causal + random:3,5", {.limits = {causal()}, .random = 3, .random_block = 5}},
      {"chunk:50 + random:2,8", {.limits = {chunk(50)}, .random = 2, .random_block = 8}},
      {"global:16,16 + block_band:16,1 + random:1,16",
       {.shows = {global(16, 16), block_band(16, 1)}, .random = 1, .random_block = 16}},
      {"causal + band:20 + random:2,16",
       {.limits = {causal()}, .shows = {band(20)}, .random = 2, .random_block = 16}},
      {"causal + window:9 + global:2", {.limits = {causal()}, .shows = {window(9), global(2, 0)}}},
      {"band:8 + global:1", {.shows = {band(8), global(1, 0)}}},
      {"causal + chunk:40 + band:6 + dilated:4,7 + global:1",
       {.limits = {causal(), chunk(40)}, .shows = {band(6), dilated(4, 7), global(1, 0)}}},
      {"prefix:33 + documents:50 + window:12",
       {.limits = {prefix(33), documents({50})}, .shows = {window(12)}}},
  };
  return all;
}

MaskPositions whole(int64_t n) {
  return {{{0, n}}, {{0, n}}};
}

std::vector<int64_t> lengths() {
  std::vector<int64_t> all(130);
  std::iota(all.begin(), all.end(), 1);
  all.insert(all.end(), {191, 193, 257, 321, 389});
  return all;
}

TEST(PatternPairs, EveryPatternSeesThePairsOfItsDefinition) {
  const std::vector<int64_t> all = lengths();
  for (size_t which = 0; which < cases().size(); ++which) {
    const Case& each = cases()[which];
    const AttentionPattern pattern = AttentionPattern::parse(each.text);
    // The definition of what is drawn looks at all pairs of all blocks: every third length, another third for each pattern.
    const size_t step = each.plain.random > 0 ? 3 : 1;
    for (size_t i = which % step; i < all.size(); i += step) {
      const int64_t n = all[i];
      const AttentionMask mask =
          mask_of(pattern, {.positions = whole(n), .length = n, .heads = 1}, /*layer=*/2);
      ASSERT_EQ(difference(mask, 0, whole(n), each.plain.pairs(n, 2, 0)), "") << each.text << " at " << n;
    }
  }
}

// The check above names a band that is one too wide or too narrow.
TEST(PatternPairs, AShiftByOneIsSeen) {
  for (const int64_t n : {1, 63, 64, 65, 129}) {
    const AttentionMask mask =
        mask_of(AttentionPattern::parse("band:16"), {.positions = whole(n), .length = n, .heads = 1}, 0);
    for (const int64_t w : {15, 17}) {
      const std::string found =
          difference(mask, 0, whole(n), PlainPattern{.shows = {band(w)}}.pairs(n, 0, 0));
      EXPECT_EQ(found.empty(), n == 1) << n << " " << w;
    }
  }
}

// As context parallelism splits them: two runs of queries against two of keys, of lengths that fit no block.
TEST(PatternPairs, PartsOfASequenceHaveTheRowsAndColumnsOfTheWhole) {
  const int64_t n = 200;
  const std::vector<MaskPositions> parts = {{{{0, 50}, {150, 50}}, {{0, 50}, {150, 50}}},
                                            {{{0, 50}, {150, 50}}, {{50, 50}, {100, 50}}},
                                            {{{17, 90}}, {{3, 1}, {60, 131}}},
                                            {{{64, 64}}, {{128, 64}}},
                                            {{{130, 0}, {199, 1}}, {{0, 200}}},
                                            {{{100, 60}, {0, 60}}, {{64, 64}, {0, 64}}}};
  for (const Case& each : cases()) {
    const AttentionPattern pattern = AttentionPattern::parse(each.text);
    const Pairs pairs = each.plain.pairs(n, 1, 3);
    for (const MaskPositions& positions : parts) {
      const AttentionMask mask =
          mask_of(pattern, {.positions = positions, .length = n, .first_head = 3, .heads = 1}, /*layer=*/1);
      ASSERT_EQ(difference(mask, 0, positions, pairs), "") << each.text;
    }
  }
}

TEST(PatternPairs, HeadsHaveTheirSectionsAndShareRules) {
  const AttentionPattern pattern = AttentionPattern::parse(
      "layers 1 heads 0,3: causal + band:9; heads 2: causal + random:1,16; layers 0: causal; causal + "
      "window:5");
  const PlainPattern near{.limits = {causal()}, .shows = {band(9)}}, plain{.limits = {causal()}};
  const PlainPattern drawn{.limits = {causal()}, .random = 1, .random_block = 16};
  const PlainPattern last{.limits = {causal()}, .shows = {window(5)}};
  const std::vector<std::vector<const PlainPattern*>> expected = {{&plain, &plain, &drawn, &plain},
                                                                  {&near, &last, &drawn, &near}};
  const int64_t n = 97;
  for (int64_t layer = 0; layer < 2; ++layer)
    for (int64_t first = 0; first < 4; ++first)
      for (int64_t heads = 1; first + heads <= 4; ++heads) {
        const AttentionMask mask = mask_of(
            pattern, {.positions = whole(n), .length = n, .first_head = first, .heads = heads}, layer);
        ASSERT_EQ(mask.heads(), heads);
        for (int64_t head = 0; head < heads; ++head) {
          const PlainPattern& of = *expected[static_cast<size_t>(layer)][static_cast<size_t>(first + head)];
          EXPECT_EQ(difference(mask, mask.rule_of(head), whole(n), of.pairs(n, layer, first + head)), "")
              << layer << " " << head;
        }
      }
  const AttentionMask mask = mask_of(pattern, {.positions = whole(n), .length = n, .heads = 4}, 1);
  EXPECT_EQ(mask.rules(), 3);
  EXPECT_EQ(mask.rule_of(0), mask.rule_of(3));
}

TEST(PatternPairs, WhatIsDrawnDiffersByLayerHeadAndSeedAndStaysAtOtherLengths) {
  const AttentionPattern pattern = AttentionPattern::parse("causal + band:4 + random:2,8");
  const auto drawn = [&](int64_t n, int64_t layer, int64_t head, uint64_t seed) {
    const HeadRules rules = pattern.rules(n, layer, head, 1, seed);
    std::vector<uint64_t> rows;
    for (int64_t i = 0; i < 300; ++i)
      for (int64_t j = 0; j < 300; j += 64) rows.push_back(rules.rules[0]->row(i, j));
    return rows;
  };
  const std::vector<uint64_t> first = drawn(300, 0, 0, 0);
  EXPECT_EQ(first, drawn(300, 0, 0, 0));
  EXPECT_EQ(first, drawn(307, 0, 0, 0));
  EXPECT_EQ(first, drawn(5000, 0, 0, 0));
  EXPECT_NE(first, drawn(300, 1, 0, 0));
  EXPECT_NE(first, drawn(300, 0, 1, 0));
  EXPECT_NE(first, drawn(300, 0, 0, 1));
  EXPECT_EQ(pattern.rules(300, 0, 0, 3).rule_of_head, (std::vector<int32_t>{0, 1, 2}));
}

}  // namespace
}  // namespace athanor::tests::pattern_pairs_test
