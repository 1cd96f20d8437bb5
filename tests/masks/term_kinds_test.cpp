// Rules of single terms: what they say of blocks at any place, against their rows and the papers' definitions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "athanor/base/philox.h"
#include "athanor/masks/kinds/join.h"
#include "athanor/masks/kinds/term_kind.h"
#include "masks/plain_pattern.h"

namespace athanor::tests::term_kinds_test {
namespace {

using namespace athanor::tests::masks;
using namespace athanor::masks::kinds;

struct Case {
  const char* name;
  Numbers numbers;
  Predicate sees;
};

constexpr int64_t kLength = 700;

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"causal", {}, causal()},
      {"prefix", {90}, prefix(90)},
      {"chunk", {37}, chunk(37)},
      {"documents", {10, 200, 1, 64}, documents({10, 200, 1, 64})},
      {"band", {40}, band(40)},
      {"window", {65}, window(65)},
      {"dilated", {6, 1}, dilated(6, 1)},
      {"dilated", {6, 7}, dilated(6, 7)},
      {"dilated", {2, 100}, dilated(2, 100)},
      {"global", {70, 9}, global(70, 9)},
      {"global", {0, 350}, global(0, 350)},
      {"global", {400, 300}, global(400, 300)},
      {"block", {48}, block(48)},
      {"block_band", {20, 2}, block_band(20, 2)},
      {"strided", {1}, strided(1)},
      {"strided", {9}, strided(9)},
      {"strided", {150}, strided(150)},
      {"fixed", {12, 5}, fixed(12, 5)},
      {"fixed", {130, 1}, fixed(130, 1)},
      {"fixed", {90, 90}, fixed(90, 90)},
  };
  return all;
}

// Blocks of 1 to 64 queries and keys anywhere.
PairBlock any_block(const RandomStream& stream, uint64_t number) {
  const Philox4 words = stream.block(number, 0);
  const auto below = [](uint32_t word, int64_t end) { return static_cast<int64_t>(word) % end; };
  const int64_t queries = 1 + below(words[0] >> 16, 64), keys = 1 + below(words[0] & 0xffff, 64);
  // Half of them near the diagonal, where most edges lie.
  const int64_t query = below(words[1], kLength - queries);
  const int64_t near = std::clamp<int64_t>(query + below(words[2], 200) - 100, 0, kLength - keys - 1);
  return {query, queries, words[3] % 2 == 0 ? near : below(words[2], kLength - keys), keys};
}

TEST(TermKinds, BlocksAndRowsAreThoseOfTheDefinition) {
  const RandomStream stream(5, "blocks");
  for (const Case& each : cases()) {
    const TermKind* kind = find_term_kind(each.name);
    ASSERT_NE(kind, nullptr) << each.name;
    const auto rule = kind->make(each.numbers, {.length = kLength});
    int64_t none = 0, all = 0;
    for (uint64_t number = 0; number < 1500; ++number) {
      const PairBlock block = any_block(stream, number);
      int64_t pairs = 0;
      for (int64_t i = block.query; i < block.query + block.queries; ++i) {
        const uint64_t row = rule->row(i, block.key);
        for (int64_t j = 0; j < 64 && block.key + j < kLength; ++j) {
          const bool sees = each.sees(i, block.key + j, kLength);
          ASSERT_EQ(row >> j & 1, sees ? 1u : 0u) << each.name << " " << i << "," << block.key + j;
          pairs += sees && j < block.keys ? 1 : 0;
        }
      }
      const auto where =
          fmt::format("{} {} +{} {} +{}", each.name, block.query, block.queries, block.key, block.keys);
      const Seen seen = rule->block(block);
      // `none` is exact, as what is drawn at random asks for it; `all` never says too much.
      ASSERT_EQ(seen == Seen::none, pairs == 0) << where;
      ASSERT_TRUE(seen != Seen::all || pairs == block.queries * block.keys) << where;
      ASSERT_EQ(sees_any(*rule, block), pairs > 0) << where;
      none += seen == Seen::none ? 1 : 0;
      all += seen == Seen::all ? 1 : 0;
    }
    EXPECT_GT(none + all, 0) << each.name;
  }
}

TEST(TermKinds, TheTableIsWhole) {
  std::vector<std::string_view> names;
  for (const TermKind* kind : term_kinds()) {
    names.push_back(kind->name);
    EXPECT_EQ(find_term_kind(kind->name), kind);
    EXPECT_TRUE(kind->form.starts_with(kind->name));
    EXPECT_FALSE(kind->meaning.empty());
    EXPECT_NE(kind->make, nullptr);
    EXPECT_NE(kind->fewest_positions, nullptr);
  }
  EXPECT_EQ(names.size(), 14u);
  EXPECT_EQ(find_term_kind("bands"), nullptr);
  EXPECT_EQ(find_term_kind(""), nullptr);
}

// Far from 0 as at 0: nothing counts bits out of their word.
TEST(TermKinds, RowsFarAwayAreEmptyOrWhole) {
  const int64_t far = int64_t{1} << 30;
  const auto rule = [&](const char* name, const Numbers& numbers) {
    return find_term_kind(name)->make(numbers, {.length = far});
  };
  EXPECT_EQ(rule("causal", {})->row(far, 0), ~uint64_t{0});
  EXPECT_EQ(rule("causal", {})->row(0, far), 0u);
  EXPECT_EQ(rule("band", {kMostOfNumber})->row(far, 0), ~uint64_t{0});
  EXPECT_EQ(rule("dilated", {kMostOfNumber, kMostOfNumber})->row(far, 0), 1u);
  EXPECT_EQ(rule("block_band", {kMostOfNumber, kMostOfNumber})->row(far, 0), ~uint64_t{0});
  EXPECT_EQ(rule("documents", {1, kMostOfNumber})->row(far, 0), ~uint64_t{1});
  EXPECT_EQ(rule("fixed", {kMostOfNumber, 1})->row(far, far - 64), uint64_t{1} << 63);
}

}  // namespace
}  // namespace athanor::tests::term_kinds_test
