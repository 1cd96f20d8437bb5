// Masked language modelling: how many tokens are taken out and what becomes of them, by address.
#include "athanor/data/objectives/masked_tokens.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "athanor/data/batch.h"
#include "data/fakes.h"

namespace athanor::tests::masked_tokens_test {
namespace {

using ::testing::HasSubstr;

struct Row {
  std::vector<int32_t> before, tokens, targets;
};

// A row of `length` tokens, of which the first `filled` are text.
Row masked(const MaskedTokens& objective, const SequencePlace& place, int64_t length, int64_t filled,
           int32_t distinct = 900) {
  Row row;
  for (int64_t i = 0; i < length; ++i)
    row.before.push_back(i < filled ? static_cast<int32_t>((i * 37 + place.sequence * 11) % distinct) + 5
                                    : 0);
  row.tokens = row.before;
  row.targets.assign(row.tokens.size(), 3);
  objective.apply(place, {row.tokens, row.targets, filled});
  return row;
}

MaskedTokensOptions options() {
  return {.mask_id = 4, .vocab_size = 1000, .special = {true, true, true, true, true}};
}

// Of a million tokens: 15 %, of them 80, 10 and 10 %; all places alike; nothing but what was chosen has changed.
TEST(MaskedTokens, SharesAreThoseAskedFor) {
  const MaskedTokens objective(options(), 7);
  int64_t chosen = 0, mask = 0, same = 0, other = 0;
  std::vector<int64_t> by_place(101, 0);
  for (int64_t sequence = 0; sequence < 10000; ++sequence) {
    const Row row = masked(objective, {"en", sequence % 3, sequence}, 101, 101);
    for (size_t i = 0; i < row.tokens.size(); ++i) {
      if (row.targets[i] == kNoTarget) {
        ASSERT_EQ(row.tokens[i], row.before[i]);
        continue;
      }
      ASSERT_EQ(row.targets[i], row.before[i]);
      ++chosen, ++by_place[i];
      mask += row.tokens[i] == 4, same += row.tokens[i] == row.before[i];
      other += row.tokens[i] != 4 && row.tokens[i] != row.before[i];
    }
  }
  const auto share = [](int64_t part, int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  EXPECT_NEAR(share(chosen, 1010000), 0.15, 0.002);
  EXPECT_NEAR(share(mask, chosen), 0.8, 0.003);
  EXPECT_NEAR(share(same, chosen), 0.1, 0.003);
  EXPECT_NEAR(share(other, chosen), 0.1, 0.003);
  for (const int64_t at : by_place) EXPECT_NEAR(static_cast<double>(at), 1485.0, 200.0);
}

TEST(MaskedTokens, CountIsExactAndAtLeastOne) {
  const MaskedTokens objective(options(), 7);
  for (const int64_t filled : {1, 2, 3, 7, 10, 20, 64, 127})
    for (int64_t sequence = 0; sequence < 20; ++sequence) {
      const Row row = masked(objective, {"en", 0, sequence}, 128, filled);
      const auto chosen = std::ranges::count_if(row.targets, [](int32_t id) { return id != kNoTarget; });
      EXPECT_EQ(chosen, std::max<int64_t>(1, std::llrint(0.15 * static_cast<double>(filled)))) << filled;
      EXPECT_TRUE(std::ranges::all_of(std::span(row.targets).subspan(static_cast<size_t>(filled)),
                                      [](int32_t id) { return id == kNoTarget; }));
    }
}

TEST(MaskedTokens, SpecialTokensAreNeverChosen) {
  MaskedTokensOptions few = options();
  few.rate = 0.9;
  const MaskedTokens objective(few, 7);
  std::vector<int32_t> tokens = {1, 10, 11, 2, 12, 2}, targets(6, 0);
  objective.apply({"en", 0, 0}, {tokens, targets, 6});
  for (const size_t i : {0, 3, 5}) EXPECT_EQ(targets[i], kNoTarget);
  std::vector<int32_t> all_special(5, 2), none(5, 0);
  objective.apply({"en", 0, 1}, {all_special, none, 5});
  EXPECT_EQ(none, std::vector<int32_t>(5, kNoTarget));
}

// Ids from 500 on continue the word before them.
TEST(MaskedTokens, WordsAreChosenWhole) {
  MaskedTokensOptions whole = options();
  whole.continues.assign(1000, false);
  for (size_t id = 500; id < 1000; ++id) whole.continues[id] = true;
  const MaskedTokens objective(whole, 7);
  int64_t chosen = 0;
  for (int64_t sequence = 0; sequence < 500; ++sequence) {
    const Row row = masked(objective, {"en", 0, sequence}, 96, 96);
    for (size_t i = 1; i < row.before.size(); ++i)
      if (row.before[i] >= 500) {
        ASSERT_EQ(row.targets[i] == kNoTarget, row.targets[i - 1] == kNoTarget) << sequence << " at " << i;
      }
    chosen += std::ranges::count_if(row.targets, [](int32_t id) { return id != kNoTarget; });
  }
  EXPECT_LE(chosen, 500 * 14);
  EXPECT_GE(chosen, 500 * 13);
}

// The place and the seed decide, and nothing else.
TEST(MaskedTokens, NoiseHasAnAddress) {
  const MaskedTokens objective(options(), 7), other_seed(options(), 8);
  const SequencePlace place{"en", 1, 5};
  const Row row = masked(objective, place, 64, 64);
  static_cast<void>(masked(objective, {"en", 1, 6}, 64, 64));
  EXPECT_EQ(masked(objective, place, 64, 64).tokens, row.tokens);
  EXPECT_NE(masked(objective, {"en", 2, 5}, 64, 64).targets, row.targets);
  EXPECT_NE(masked(objective, {"code", 1, 5}, 64, 64).targets, row.targets);
  EXPECT_NE(masked(objective, {"en", SequencePlace::kHeldOut, 5}, 64, 64).targets, row.targets);
  EXPECT_NE(masked(other_seed, place, 64, 64).targets, row.targets);
}

TEST(MaskedTokens, TokenizerMustHaveAMask) {
  Config config;
  config.model.model_type = "bert";
  const ByteTokenizer tokenizer;
  try {
    make_objective(config, &tokenizer, 300);
    FAIL() << "expected a refusal";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("data.tokenizer: it has no token to mask others with, expected [MASK] or <mask>"));
  }
  config.data.mask_token = "12";
  EXPECT_NE(make_objective(config, nullptr, 300), nullptr);
  config.data.mask_token = "300";
  EXPECT_THROW(make_objective(config, nullptr, 300), ConfigError);
  config.model.model_type = "gpt2";
  EXPECT_EQ(make_objective(config, nullptr, 300), nullptr);
}

// Where a document ends, by where they begin.
TEST(MaskedTokens, DocumentEndsFollowFromStarts) {
  const std::vector<int32_t> starts = {0, 0, 2, 2, 2, 5, 0, 1, 1, 1, 1, 1};
  EXPECT_EQ(document_ends_of(starts, 6), (std::vector<int32_t>{2, 2, 5, 5, 5, 6, 1, 6, 6, 6, 6, 6}));
}

}  // namespace
}  // namespace athanor::tests::masked_tokens_test
