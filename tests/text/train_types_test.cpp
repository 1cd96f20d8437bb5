// bpe, unigram and wordpiece: what they share with byte-bpe is in trainer_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/tokenizer.h"
#include "athanor/text/trainers/trainer.h"
#include "athanor/text/trainers/unigram_trainer.h"
#include "text/dice.h"

namespace athanor::tests::train_types_test {
namespace {

using Json = nlohmann::json;

std::string train_type(TokenizerTrainerOptions options, const std::string& text) {
  TokenizerTrainer trainer(std::move(options));
  trainer.add(text);
  return trainer.finish();
}

// Words of a made-up language, so often that pieces are worth learning.
std::string sample() {
  Dice dice(4);
  const std::vector<std::string> words = {"the",     "then",         "other",     "lower",
                                          "slowest", "\u4F60\u597D", "caf\u00E9", "12"};
  std::string text;
  for (int i = 0; i < 3000; ++i) text += words[dice.below(words.size())] + (dice.below(9) ? " " : ".\n");
  return text;
}

class LosslessType : public testing::TestWithParam<const char*> {};

TEST_P(LosslessType, AnyBytesComeBack) {
  Dice dice(6);
  const auto tokenizer = Tokenizer::parse(train_type({.type = GetParam(), .vocab_size = 340}, sample()), "t");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(sample())), sample());
  EXPECT_LT(tokenizer->encode(sample()).size(), sample().size() / 3);
  for (int round = 0; round < 300; ++round) {
    std::string text = sample().substr(dice.below(500), dice.below(30));
    for (uint64_t n = dice.below(20); n > 0; --n)
      text.insert(dice.below(text.size() + 1), 1, static_cast<char>(dice.below(256)));
    ASSERT_EQ(tokenizer->decode(tokenizer->encode_ordinary(text)), text);
  }
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>").back(), 0);
  EXPECT_EQ(tokenizer->end_of_text(), 0);
}

TEST_P(LosslessType, NamesOfBytesAndSpecialTokensAreOrdinaryText) {
  const std::string text = "<0x41> <|endoftext|> <unk> stop";
  const auto tokenizer = Tokenizer::parse(
      train_type({.type = GetParam(), .vocab_size = 400, .special_tokens = {"<|endoftext|>", "stop"}},
                 text + text + text),
      "t");
  const auto ids = tokenizer->encode_ordinary(text);
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(std::ranges::count_if(ids, [](int32_t id) { return id < 2; }), 0);
}

TEST_P(LosslessType, TheSameForAnyNumberOfThreads) {
  const std::string one = train_type({.type = GetParam(), .vocab_size = 330}, sample());
  EXPECT_EQ(train_type({.type = GetParam(), .vocab_size = 330, .num_threads = 3}, sample()), one);
}

TEST_P(LosslessType, HasAsManyTokensAsAskedFor) {
  Dice dice(8);
  std::vector<std::string> words(300);
  for (std::string& word : words)
    for (uint64_t n = 3 + dice.below(6); n > 0; --n) word += static_cast<char>('a' + dice.below(20));
  std::string text;
  for (int i = 0; i < 5000; ++i) text += words[dice.below(words.size())] + " ";
  for (const int32_t size : {300, 333, 400})
    EXPECT_EQ(Tokenizer::parse(train_type({.type = GetParam(), .vocab_size = size}, text), "t")->vocab_size(),
              size);
  EXPECT_THROW(train_type({.type = GetParam(), .vocab_size = 256}, text), ConfigError);
}

TEST_P(LosslessType, RareCharactersBecomeBytes) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "ab ";
  const auto tokenizer =
      Tokenizer::parse(train_type({.type = GetParam(), .vocab_size = 300}, text + "\u9F98"), "t");
  EXPECT_EQ(tokenizer->id_of("\u9F98"), std::nullopt);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("\u9F98")), "\u9F98");
}

INSTANTIATE_TEST_SUITE_P(Types, LosslessType, testing::Values("bpe", "unigram"),
                         [](const auto& item) { return std::string(item.param); });

TEST(WordPiece, LearnsPiecesWithThePrefix) {
  const Json file = Json::parse(train_type({.type = "wordpiece", .vocab_size = 50}, sample()));
  const Json& vocab = file["model"]["vocab"];
  EXPECT_EQ(vocab["<|endoftext|>"], 0);
  EXPECT_EQ(vocab["[UNK]"], 1);
  EXPECT_EQ(vocab.size(), 50u);
  EXPECT_TRUE(vocab.contains("the"));
  EXPECT_TRUE(vocab.contains("\u4F60"));
  const auto tokenizer = Tokenizer::parse(file.dump(), "t");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("the  other lower")), "the other lower");
  EXPECT_EQ(tokenizer->encode("the XYZ"), (std::vector<int32_t>{*tokenizer->id_of("the"), 1}));
  EXPECT_THROW(train_type({.type = "wordpiece"}, "\xFF"), Error);
}

TEST(Unigram, SeedsAreTheFrequentSubstrings) {
  const auto seeds = text::frequent_substrings({{"abc", 3}, {"abd", 1}, {"xyz", 1}}, 100);
  std::vector<std::string> texts;
  for (const auto& seed : seeds) texts.push_back(seed.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "b", "c", "d", "x", "y", "z", "abc", "ab", "bc"}));
  EXPECT_EQ(seeds[8].score, 4);
}

TEST(Unigram, ScoresAreLogProbabilities) {
  text::UnigramTrainer trainer({{"ab", 1000}, {"a", 500}, {"b", 500}}, 3, 1);
  const auto pieces = trainer.run({});
  ASSERT_EQ(pieces.size(), 3u);
  double total = 0, score_of_ab = 0, score_of_chars = 0;
  for (const auto& piece : pieces) {
    total += std::exp(piece.score);
    (piece.text == "ab" ? score_of_ab : score_of_chars) += piece.score;
  }
  EXPECT_NEAR(total, 1, 2e-3);
  EXPECT_GT(score_of_ab, score_of_chars);
}

// Text made of six random words run together: the pieces that survive are the words.
TEST(Unigram, FindsTheWordsInTextWithoutSpaces) {
  Dice dice(9);
  const std::vector<std::string> words = {"kamo", "zirut", "pel", "washi", "dunno", "frex"};
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    for (uint64_t n = 1 + dice.below(4); n > 0; --n) text += words[dice.below(words.size())];
    text += '\n';
  }
  const Json file =
      Json::parse(train_type({.type = "unigram", .vocab_size = 300, .special_tokens = {}}, text));
  const auto tokenizer = Tokenizer::parse(file.dump(), "t");
  for (const std::string& word : words) EXPECT_TRUE(tokenizer->id_of(word).has_value()) << word;
  std::vector<std::string> cut;
  for (const int32_t id : tokenizer->encode("pelwashifrex")) cut.push_back(tokenizer->token_of(id));
  EXPECT_EQ(cut, (std::vector<std::string>{"pel", "washi", "frex"}));
}

}  // namespace
}  // namespace athanor::tests::train_types_test
