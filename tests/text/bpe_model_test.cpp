#include "athanor/text/models/bpe_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "text/dice.h"

namespace athanor::tests::bpe_model_test {

using namespace text;
namespace {

using Merges = std::vector<std::pair<std::string, std::string>>;

BpeModel make_model(const std::vector<std::string>& tokens, const Merges& merges, BpeOptions options = {}) {
  std::vector<std::pair<std::string, int64_t>> vocab;
  for (const std::string& token : tokens) vocab.emplace_back(token, vocab.size());
  Vocabulary vocabulary("test", std::move(vocab));
  std::vector<std::pair<int32_t, int32_t>> ids;
  for (const auto& [left, right] : merges) ids.emplace_back(*vocabulary.find(left), *vocabulary.find(right));
  return {std::move(vocabulary), ids, std::move(options)};
}

std::vector<std::string> tokens_of(const BpeModel& model, std::string_view word) {
  std::vector<int32_t> ids;
  model.encode_word(word, ids);
  std::vector<std::string> tokens;
  for (const int32_t id : ids) tokens.push_back(*model.vocabulary().token(id));
  return tokens;
}

using Tokens = std::vector<std::string>;

TEST(BpeModel, JoinsTheLowestRankFirstAndTheLeftmostOfEquals) {
  const BpeModel model =
      make_model({"a", "b", "c", "ab", "bc", "abc", "aa"}, {{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"a", "a"}});
  EXPECT_EQ(tokens_of(model, "abc"), (Tokens{"abc"}));
  EXPECT_EQ(tokens_of(model, "abab"), (Tokens{"ab", "ab"}));
  EXPECT_EQ(tokens_of(model, "aaa"), (Tokens{"aa", "a"}));
  EXPECT_EQ(tokens_of(model, ""), Tokens{});
}

// The definition, written as plainly as possible: the oracle for the two fast paths.
std::vector<std::string> merge_naively(std::vector<std::string> symbols, const Merges& merges) {
  while (true) {
    size_t best_rank = merges.size(), best = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i)
      for (size_t rank = 0; rank < best_rank; ++rank)
        if (merges[rank] == std::pair(symbols[i], symbols[i + 1])) {
          best_rank = rank;
          best = i;
        }
    if (best_rank == merges.size()) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(BpeModel, ShortAndLongWordsFollowTheDefinition) {
  Dice dice(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> tokens = {"a", "b", "c"};
    Merges merges;
    for (int i = 0; i < 25; ++i) {
      const std::pair pair(tokens[dice.below(tokens.size())], tokens[dice.below(tokens.size())]);
      if (std::ranges::count(merges, pair) > 0) continue;
      merges.push_back(pair);
      if (std::ranges::count(tokens, pair.first + pair.second) == 0)
        tokens.push_back(pair.first + pair.second);
    }
    const BpeModel model = make_model(tokens, merges);
    for (const size_t size : {1, 2, 3, 5, 17, 47, 48, 49, 50, 200}) {
      std::string word;
      std::vector<std::string> symbols;
      for (size_t i = 0; i < size; ++i) {
        word += static_cast<char>('a' + dice.below(3));
        symbols.emplace_back(1, word.back());
      }
      ASSERT_EQ(tokens_of(model, word), merge_naively(symbols, merges)) << word;
    }
  }
}

TEST(BpeModel, TakesAWordOfAMillionCharacters) {
  const BpeModel model = make_model({"a", "b", "aa", "aaaa", "ab"}, {{"a", "a"}, {"aa", "aa"}, {"a", "b"}});
  EXPECT_EQ(tokens_of(model, std::string(1 << 20, 'a')).size(), size_t{1} << 18);
}

TEST(BpeModel, UnknownCharacters) {
  const std::vector<std::string> tokens = {"<unk>", "a", "<0xC3>", "<0xA9>"};
  EXPECT_EQ(tokens_of(make_model(tokens, {}, {.unk = 0}), "a\u4F60\u597Da"),
            (Tokens{"a", "<unk>", "<unk>", "a"}));
  EXPECT_EQ(tokens_of(make_model(tokens, {}, {.unk = 0, .fuse_unk = true}), "\u4F60\u597Da\u4F60"),
            (Tokens{"<unk>", "a", "<unk>"}));
  EXPECT_EQ(tokens_of(make_model(tokens, {}, {.unk = 0, .byte_fallback = true}), "\u00E9\u4F60"),
            (Tokens{"<0xC3>", "<0xA9>", "<unk>"}));
  EXPECT_TRUE(tokens_of(make_model(tokens, {}), "\u4F60").empty());
}

TEST(BpeModel, AffixesAndIgnoredMerges) {
  const BpeModel affixed = make_model({"a", "##b", "##c</w>", "a</w>", "a##b", "ab"}, {{"a", "##b"}},
                                      {.continuing_subword_prefix = "##", .end_of_word_suffix = "</w>"});
  EXPECT_EQ(tokens_of(affixed, "abc"), (Tokens{"ab", "##c</w>"}));
  EXPECT_EQ(tokens_of(affixed, "a"), (Tokens{"a</w>"}));
  const BpeModel whole = make_model({"a", "b", "ab"}, {}, {.ignore_merges = true});
  EXPECT_EQ(tokens_of(whole, "ab"), (Tokens{"ab"}));
  EXPECT_EQ(tokens_of(whole, "aba"), (Tokens{"a", "b", "a"}));
}

TEST(BpeModel, TheLastRankOfAMergeCounts) {
  const BpeModel model = make_model({"a", "b", "c", "ab", "bc"}, {{"a", "b"}, {"b", "c"}, {"a", "b"}});
  EXPECT_EQ(tokens_of(model, "abcab"), (Tokens{"a", "bc", "ab"}));
}

TEST(BpeModel, RefusesMergesThatMakeNoToken) {
  EXPECT_THROW(make_model({"a", "b"}, {{"a", "b"}}), Error);
}

}  // namespace
}  // namespace athanor::tests::bpe_model_test
