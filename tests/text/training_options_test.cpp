// coverage, alphabet, normalizer and max_token_length of tokenizer training, counted by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/tokenizer.h"
#include "athanor/text/trainers/trainer.h"
#include "athanor/text/unicode.h"
#include "text/dice.h"

namespace athanor::tests::training_options_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

std::string trained_text(const TokenizerTrainerOptions& options, const Words& documents) {
  TokenizerTrainer trainer(options);
  for (const std::string& document : documents) trainer.add(document);
  return trainer.finish();
}

Json trained(const TokenizerTrainerOptions& options, const std::string& text) {
  return Json::parse(trained_text(options, {text}));
}

std::shared_ptr<const Tokenizer> tokenizer_of(const TokenizerTrainerOptions& options,
                                              const std::string& text) {
  return Tokenizer::parse(trained_text(options, {text}), "t");
}

std::string error_of(const TokenizerTrainerOptions& options) {
  try {
    trained(options, "a");
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

// The tokens of one character, in order.
std::string alphabet(const TokenizerTrainerOptions& options, const std::string& text) {
  const auto tokenizer = tokenizer_of(options, text);
  std::string all;
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id)
    if (tokenizer->token_of(id).size() == 1) all += tokenizer->token_of(id);
  std::ranges::sort(all);
  return all;
}

TEST(TrainingOptions, CoverageAndAlphabetLeaveRareCharactersOut) {
  const std::string text = "aaaaaaa bb c";  // 7 a, 2 spaces, 2 b, 1 c
  for (const char* type : {"bpe", "unigram"}) {
    EXPECT_EQ(alphabet({.type = type, .vocab_size = 300}, text), " abc") << type;
    EXPECT_EQ(alphabet({.type = type, .vocab_size = 300, .coverage = 1}, text), " abc") << type;
    EXPECT_EQ(alphabet({.type = type, .vocab_size = 300, .coverage = 0.9}, text), " ab") << type;
    EXPECT_EQ(alphabet({.type = type, .vocab_size = 300, .coverage = 0.75}, text), " a") << "9 of 12";
    EXPECT_EQ(alphabet({.type = type, .vocab_size = 300, .coverage = 0.5}, text), "a") << type;
    EXPECT_EQ(alphabet({.type = type, .vocab_size = 300, .max_alphabet = 3}, text), " ab") << type;
    EXPECT_EQ(alphabet({.type = type, .vocab_size = 300, .coverage = 0.5, .max_alphabet = 3}, text), "a");
    const auto lossless = tokenizer_of({.type = type, .vocab_size = 300, .max_alphabet = 1}, text);
    EXPECT_EQ(lossless->decode(lossless->encode(text)), text) << "the others are bytes";
  }
  const TokenizerTrainerOptions word_piece = {.type = "wordpiece", .vocab_size = 300, .max_alphabet = 2};
  EXPECT_EQ(alphabet(word_piece, text), "ab") << "no spaces in words";
  EXPECT_EQ(tokenizer_of(word_piece, text)->encode("c"), std::vector<int32_t>{1}) << "[UNK]";
}

TEST(TrainingOptions, MaxTokenLengthEndsMerges) {
  // Words: "abc" once, "Ġabc" twice: a+b and b+c three times, Ġ+a twice.
  const auto merges = [](const char* type, int64_t length) {
    return trained({.type = type, .vocab_size = 300, .max_token_length = length},
                   "abc abc abc")["model"]["merges"]
        .get<std::vector<std::string>>();
  };
  EXPECT_EQ(merges("byte-bpe", 1), Words{});
  EXPECT_EQ(merges("byte-bpe", 2), Words{"a b"});
  EXPECT_EQ(merges("byte-bpe", 3), (Words{"a b", "ab c"}));
  EXPECT_EQ(merges("byte-bpe", 4), (Words{"a b", "ab c", "\u0120 abc"}));
  EXPECT_EQ(merges("byte-bpe", 0), merges("byte-bpe", 4));
  const Json characters = trained({.type = "bpe", .vocab_size = 300, .max_token_length = 2}, "天地天地天地");
  EXPECT_TRUE(characters["model"]["vocab"].contains("天地")) << "two characters, six bytes";
  const Json bytes = trained({.vocab_size = 300, .max_token_length = 2}, "天地天地天地");
  for (const auto& [token, id] : bytes["model"]["vocab"].items()) {
    if (id.get<int>() > 0) {
      EXPECT_LE(text::count_code_points(token), 2) << token;
    }
  }
  const Json pieces =
      trained({.type = "wordpiece", .vocab_size = 300, .max_token_length = 2}, "xab xab yab zab");
  EXPECT_TRUE(pieces["model"]["vocab"].contains("##ab")) << "## is no part of the length";
  EXPECT_FALSE(pieces["model"]["vocab"].contains("xab"));
}

TEST(TrainingOptions, UnigramPiecesHaveAtMostSoManyCharacters) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "天地玄黄abcdefghijklmnopqrstuvwxyz ";
  for (const int64_t length : {1, 3, 16, 20}) {
    const Json file = trained({.type = "unigram", .vocab_size = 400, .max_token_length = length}, text);
    int64_t longest = 0;
    for (size_t i = 258; i < file["model"]["vocab"].size(); ++i)
      longest = std::max(longest, text::count_code_points(file["model"]["vocab"][i][0].get<std::string>()));
    EXPECT_EQ(longest, length);
  }
}

TEST(TrainingOptions, NormalizersAreAppliedAndWritten) {
  // Text that the normalizer changes is learned from like text that is that already.
  const auto merges = [](const std::vector<std::string>& normalizer, const std::string& text) {
    return trained({.vocab_size = 300, .normalizer = normalizer}, text)["model"];
  };
  EXPECT_EQ(merges({"lowercase"}, "AB Ab aB AC"), merges({}, "ab ab ab ac"));
  EXPECT_EQ(merges({"nfd", "strip_accents"}, "\u00E9t\u00E9 e\u0301te"), merges({}, "ete ete"));
  EXPECT_EQ(merges({"nfc"}, "e\u0301te\u0301 \u00E9t\u00E9"), merges({}, "\u00E9t\u00E9 \u00E9t\u00E9"));
  EXPECT_EQ(merges({"nfkc"}, "\uFF21\u2460 \uFB01"), merges({}, "A1 fi"));
  EXPECT_EQ(merges({"none"}, "AB"), merges({}, "AB"));
  const auto written = [](const char* type, const std::vector<std::string>& normalizer) {
    return trained({.type = type, .vocab_size = 300, .normalizer = normalizer}, "abab")["normalizer"];
  };
  for (const char* type : {"byte-bpe", "bpe", "unigram", "char"}) {
    EXPECT_EQ(written(type, {}), nullptr) << type;
    EXPECT_EQ(written(type, {"nfc"}), (Json{{"type", "NFC"}})) << type;
    const Json two = written(type, {"nfkd", "lowercase"});
    EXPECT_EQ(two["type"], "Sequence") << type;
    EXPECT_EQ(two["normalizers"], (Json{{{"type", "NFKD"}}, {{"type", "Lowercase"}}})) << type;
  }
  EXPECT_EQ(written("wordpiece", {})["type"], "BertNormalizer");
  EXPECT_EQ(written("wordpiece", {"none"}), nullptr);
  EXPECT_EQ(written("wordpiece", {"lowercase"})["normalizers"][0]["type"], "BertNormalizer");
  EXPECT_EQ(written("wordpiece", {"lowercase"})["normalizers"][1]["type"], "Lowercase");
  for (const char* type : {"byte-bpe", "bpe", "unigram", "char", "wordpiece"}) {
    const auto tokenizer = tokenizer_of({.type = type,
                                         .vocab_size = std::string(type) == "char" ? 0 : 300,
                                         .normalizer = {"nfd", "strip_accents", "lowercase"}},
                                        "ete hat ete");
    EXPECT_EQ(tokenizer->encode("\u00C9T\u00C9"), tokenizer->encode("ete")) << type;
  }
}

// A text of several blocks, in which a letter becomes a symbol, which takes the line end after it into its word: words are
// those of the whole text.
TEST(TrainingOptions, TheSameForAnyNumberOfThreadsAndAnyCut) {
  Dice dice(11);
  const std::vector<std::pair<std::string, std::string>> words = {
      {"e\u0301t\u00E9", "\u00E9t\u00E9"}, {"A\u030A", "\u00C5"}, {"\uFE70", " \u064B"}, {"x", "x"},
      {"\u1100\u1161", "\uAC00"},          {"\uFF01", "!"},       {"12", "12"}};
  std::string raw, normal;
  while (raw.size() < 1'500'000) {
    const auto& [from, to] = words[dice.below(words.size())];
    const char* const blank = dice.below(3) ? " " : "\n";
    raw += from + blank;
    normal += to + blank;
  }
  for (const char* type : {"byte-bpe", "bpe", "unigram", "wordpiece"}) {
    TokenizerTrainerOptions options = {
        .type = type, .vocab_size = 330, .pattern = "cl100k", .normalizer = {"nfkc"}};
    const std::string one = trained_text(options, {raw});
    options.num_threads = 3;
    EXPECT_EQ(trained_text(options, {raw}), one) << type;
    options.normalizer = {};
    EXPECT_EQ(Json::parse(trained_text(options, {normal}))["model"], Json::parse(one)["model"]) << type;
  }
}

TEST(TrainingOptions, WhatATypeCannotDoIsRefused) {
  EXPECT_EQ(
      error_of({.coverage = 0.9}),
      "coverage: is not for type byte-bpe, whose alphabet is the 256 bytes | it works for bpe, unigram and "
      "wordpiece");
  EXPECT_EQ(
      error_of({.type = "char", .max_alphabet = 9}),
      "alphabet: is not for type char, whose alphabet is every character of the text | it works for bpe, "
      "unigram and wordpiece");
  EXPECT_EQ(error_of({.type = "char", .max_token_length = 9}),
            "max_token_length: is not for type char, whose tokens have one character each | it works for "
            "byte-bpe, bpe, unigram and wordpiece");
  EXPECT_EQ(error_of({.type = "bpe", .coverage = 1.5}),
            "coverage: got 1.5, expected more than 0 and at most 1 | ");
  EXPECT_EQ(error_of({.type = "bpe", .max_alphabet = -1}), "alphabet: got -1, expected 1 or more | ");
  EXPECT_EQ(error_of({.max_token_length = -1}), "max_token_length: got -1, expected 1 or more | ");
  EXPECT_EQ(
      error_of({.normalizer = {"nfx"}}),
      "normalizer: got 'nfx', expected nfc, nfd, nfkc, nfkd, lowercase, strip_accents or none | did you "
      "mean 'nfc'?");
  EXPECT_EQ(error_of({.normalizer = {"none", "nfc"}}), "normalizer: got none,nfc, expected none alone | ");
  for (const std::vector<std::string>& steps : {Words{"strip_accents"}, Words{"nfd", "nfc", "strip_accents"}})
    EXPECT_EQ(
        error_of({.normalizer = steps}),
        "normalizer: strip_accents takes only marks that stand alone, expected nfd or nfkd before it | for "
        "example: nfd,strip_accents");
}

}  // namespace
}  // namespace athanor::tests::training_options_test
