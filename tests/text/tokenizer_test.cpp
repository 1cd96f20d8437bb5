// What callers of Tokenizer rely on beyond equality with Hugging Face.
#include "athanor/text/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "athanor/base/error.h"
#include "athanor/text/trainers/trainer.h"
#include "support/temporary_folder.h"
#include "text/dice.h"

namespace athanor::tests::tokenizer_test {
namespace {

std::string train_on_text(const TokenizerTrainerOptions& options, std::string_view text) {
  TokenizerTrainer trainer(options);
  trainer.add(text);
  return trainer.finish();
}

TEST(Tokenizer, LoadsWhatWasWritten) {
  const TemporaryFolder folder;
  const std::string json = train_on_text({.vocab_size = 280}, "some words, some more words");
  system_env().write_atomically(folder.path("tokenizer.json"), json);
  const auto tokenizer = Tokenizer::load(system_env(), folder.path("tokenizer.json"));
  EXPECT_EQ(tokenizer->json(), json);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("some words\n")), "some words\n");
  EXPECT_THROW(Tokenizer::load(system_env(), folder.path("nothing.json")), IoError);
}

// More distinct words than the cache has slots, asked for in an order that makes words displace each other.
TEST(Tokenizer, TheWordCacheNeverGivesAnotherWordsIds) {
  const auto tokenizer = Tokenizer::parse(train_on_text({.vocab_size = 300}, "ab ba abba baab aabb"), "t");
  Dice dice(2);
  std::string all;
  for (int i = 0; i < 60000; ++i) {
    std::string word = " ";
    for (uint64_t n = 1 + dice.below(30); n > 0; --n) word += static_cast<char>('a' + dice.below(26));
    all += word;
  }
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(all)), all);
  EXPECT_EQ(tokenizer->encode(all), tokenizer->encode(all));
}

TEST(Tokenizer, ManyThreadsEncodeAtOnce) {
  const auto tokenizer =
      Tokenizer::parse(train_on_text({.vocab_size = 300}, "one two three four five six"), "t");
  std::string text;
  for (int i = 0; i < 2000; ++i) text += " one two" + std::to_string(i % 97);
  const auto expected = tokenizer->encode(text);
  std::vector<int> equal(4);
  std::vector<std::thread> threads;
  for (int& result : equal)
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) result += tokenizer->encode(text) == expected;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, (std::vector<int>{10, 10, 10, 10}));
}

TEST(Tokenizer, LongTextsWithoutASpace) {
  const auto tokenizer = Tokenizer::parse(
      train_on_text({.vocab_size = 400}, "aaaaaaaaaaaa \u4F60\u597D\u4F60\u597D 1111 !!!!"), "t");
  for (const char* const unit : {"a", "\u4F60\u597D", "1", "!", "\xFF", " ", "\n"}) {
    std::string text;
    while (text.size() < (1 << 18)) text += unit;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST(Tokenizer, FindsTheEndOfText) {
  for (const char* const token : {"<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>"}) {
    const auto tokenizer =
        Tokenizer::parse(train_on_text({.vocab_size = 258, .special_tokens = {"<x>", token}}, "a"), "t");
    EXPECT_EQ(tokenizer->end_of_text(), 1);
  }
  EXPECT_EQ(
      Tokenizer::parse(train_on_text({.vocab_size = 256, .special_tokens = {}}, "a"), "t")->end_of_text(),
      std::nullopt);
}

}  // namespace
}  // namespace athanor::tests::tokenizer_test
