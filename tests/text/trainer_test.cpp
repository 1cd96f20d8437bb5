#include "athanor/text/trainers/trainer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/tokenizer.h"
#include "text/dice.h"

namespace athanor::tests::trainer_test {
namespace {

std::string train_on_documents(const TokenizerTrainerOptions& options,
                               const std::vector<std::string>& documents) {
  TokenizerTrainer trainer(options);
  for (const std::string& document : documents) trainer.add(document);
  return trainer.finish();
}

std::shared_ptr<const Tokenizer> tokenizer_from(const TokenizerTrainerOptions& options,
                                                const std::vector<std::string>& documents) {
  return Tokenizer::parse(train_on_documents(options, documents), "trained");
}

std::string random_bytes(Dice& dice, size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(dice.below(256));
  return bytes;
}

const std::string kSample =
    "the cat sat on the mat, the cat's hat. \u4F60\u597D\u4E16\u754C\uFF0C\u4F60\u597D\uFF01\n"
    "int main() {\n\treturn 0;\n}\n\n  caf\u00E9 na\u00EFve \U0001F600 12345 67";

TEST(ByteBpe, LearnsTheMergesCountedByHand) {
  // Words: "ab" once, "Ġab" twice, "Ġac" once. a+b and Ġ+a stand three times: the smaller left id wins. Then
  // Ġ+ab twice, then a+c and Ġ+a once each.
  const auto json = nlohmann::json::parse(
      train_on_documents({.vocab_size = 260, .special_tokens = {"<s>"}}, {"ab ab ab ac"}));
  EXPECT_EQ(json["model"]["merges"], (std::vector<std::string>{"a b", "\u0120 ab", "a c"}));
  EXPECT_EQ(json["model"]["vocab"].size(), 260u);
  EXPECT_EQ(json["model"]["vocab"]["<s>"], 0);
  EXPECT_EQ(json["model"]["vocab"]["!"], 1);  // the smallest code point among the characters of bytes
  EXPECT_EQ(json["model"]["vocab"]["\u0120ab"], 258);
}

TEST(ByteBpe, StopsWhereNothingIsLeftToMerge) {
  EXPECT_EQ(tokenizer_from({.vocab_size = 100000}, {"ab ab"})->vocab_size(), 257 + 2);
  EXPECT_EQ(tokenizer_from({.vocab_size = 100000, .min_frequency = 2}, {"ab ab"})->vocab_size(), 257 + 1);
}

TEST(ByteBpe, AnyBytesComeBack) {
  Dice dice(3);
  for (const std::string& pattern : tokenizer_patterns()) {
    const auto tokenizer = tokenizer_from({.vocab_size = 400, .pattern = pattern}, {kSample, kSample});
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(kSample)), kSample);
    EXPECT_LT(tokenizer->encode(kSample).size(), kSample.size());
    for (int round = 0; round < 200; ++round) {
      std::string text = random_bytes(dice, dice.below(60));
      if (round % 2) text.insert(dice.below(text.size() + 1), kSample.substr(dice.below(40), dice.below(60)));
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
      ASSERT_EQ(tokenizer->decode(tokenizer->encode_ordinary(text)), text);
    }
    EXPECT_TRUE(tokenizer->encode("").empty());
    EXPECT_EQ(tokenizer->decode({}), "");
  }
}

TEST(ByteBpe, TheSameForAnyNumberOfThreads) {
  Dice dice(5);
  std::vector<std::string> documents;
  const std::vector<std::string> words = {"alpha", "beta", "gamma", "\u4F60\u597D", "12", "--", "\n", "x"};
  for (int i = 0; i < 3; ++i) {
    std::string& text = documents.emplace_back();
    while (text.size() < 700000)
      text.append(words[dice.below(words.size())]).append(dice.below(3) ? " " : "");
  }
  const std::string one = train_on_documents({.vocab_size = 500}, documents);
  EXPECT_EQ(train_on_documents({.vocab_size = 500, .num_threads = 3}, documents), one);
  EXPECT_EQ(
      train_on_documents({.vocab_size = 500, .num_threads = 8}, {documents[2], documents[0], documents[1]}),
      one);
}

TEST(ByteBpe, SpecialTokensAreFoundInTextButNotInDocuments) {
  const auto tokenizer = tokenizer_from({.vocab_size = 300, .special_tokens = {"<|endoftext|>", "<|pad|>"}},
                                        {"<|endoftext|> <|endoftext|> <|endoftext|>"});
  EXPECT_EQ(tokenizer->end_of_text(), 0);
  EXPECT_EQ(tokenizer->id_of("<|pad|>"), 1);
  EXPECT_EQ(tokenizer->token_of(0), "<|endoftext|>");
  const std::string text = "a<|endoftext|>b<|pad|>";
  const auto ids = tokenizer->encode(text);
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_EQ(ids[1], 0);
  EXPECT_EQ(tokenizer->decode(ids), text);
  const auto plain = tokenizer->encode_ordinary(text);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 0) + std::count(plain.begin(), plain.end(), 1), 0);
  EXPECT_EQ(tokenizer->decode(plain), text);
}

TEST(ByteBpe, NoMergeMakesASpecialToken) {
  const auto tokenizer = tokenizer_from({.vocab_size = 300, .special_tokens = {"stop"}},
                                        {"stop stop stop stop stop stop stopstop"});
  const auto plain = tokenizer->encode_ordinary("stop");
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 0), 0);
}

TEST(ByteBpe, WrongOptionsAreConfigErrors) {
  EXPECT_THROW(tokenizer_from({.vocab_size = 256}, {"a"}), ConfigError);
  EXPECT_THROW(tokenizer_from({.vocab_size = -1}, {"a"}), ConfigError);
  EXPECT_THROW(tokenizer_from({.type = "byte-bp"}, {"a"}), ConfigError);
  EXPECT_THROW(tokenizer_from({.special_tokens = {"x", "x"}}, {"a"}), ConfigError);
  EXPECT_THROW(tokenizer_from({.special_tokens = {""}}, {"a"}), ConfigError);
  EXPECT_THROW(tokenizer_from({.special_tokens = {"a"}}, {"a"}), ConfigError);
  EXPECT_THROW(tokenizer_from({.pattern = "gpt5"}, {"a"}), ConfigError);
  EXPECT_THROW(tokenizer_from({.num_threads = 0}, {"a"}), ConfigError);
  EXPECT_THROW(tokenizer_from({}, {}), Error);
  EXPECT_THROW(tokenizer_from({}, {"", ""}), Error);
}

TEST(Char, OneIdPerCodePointInOrder) {
  const auto tokenizer = tokenizer_from({.type = "char"}, {"ba\n", "\u4F60 b\U0001F600"});
  EXPECT_EQ(tokenizer->vocab_size(), 8);  // <|endoftext|> <unk> \n space a b 你 😀
  EXPECT_EQ(tokenizer->encode("ab\n\u4F60 \U0001F600"), (std::vector<int32_t>{4, 5, 2, 6, 3, 7}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(" \n\nab\u4F60")), " \n\nab\u4F60");
  EXPECT_EQ(tokenizer->encode("xyz"), (std::vector<int32_t>{1, 1, 1}));
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>"), (std::vector<int32_t>{4, 0}));
}

TEST(Char, InvalidTextIsAnErrorNamingTheOffset) {
  const auto tokenizer = tokenizer_from({.type = "char"}, {"abc"});
  try {
    tokenizer->encode("ab\xFFzz");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("0xFF at offset 2"), std::string::npos) << error.what();
  }
  EXPECT_THROW(tokenizer_from({.type = "char"}, {"ab\xE4\xBD"}), Error);
  EXPECT_THROW(tokenizer_from({.type = "char", .vocab_size = 4}, {"abc"}), ConfigError);
  EXPECT_EQ(tokenizer_from({.type = "char", .vocab_size = 5}, {"abc"})->vocab_size(), 5);
}

}  // namespace
}  // namespace athanor::tests::trainer_test
