#include "athanor/text/trainers/training_words.h"

#include <gtest/gtest.h>

#include <map>

#include "text/dice.h"

namespace athanor::tests::corpus_words_test {

using namespace text;
namespace {

using Counts = std::map<std::string, int64_t>;

Counts to_map(const WordCounts& counts) {
  Counts map;
  counts.for_each([&](std::string_view word, int64_t count) { map[std::string(word)] += count; });
  return map;
}

// A document of many blocks is counted as if it were scanned in one go, wherever the cuts fall.
TEST(CorpusWords, BlocksDoNotChangeTheWords) {
  const std::vector<std::string> parts = {" ",      "  ",     "\n", "\n\n", "a",      "Bc",
                                          "\u4F60", "\u3002", ".",  "!\n",  "\u00E9", "\u0301",
                                          "1",      "23",     "'s", "\t",   "\xFF"};
  Dice dice(1);
  std::vector<std::string> documents(16);
  for (std::string& document : documents)
    while (document.size() < 300000) document += parts[dice.below(parts.size())];
  ThreadPool pool(3);
  for (const WordPattern pattern : {WordPattern::gpt2, WordPattern::cl100k, WordPattern::qwen2}) {
    WordCounts whole;
    CorpusWords corpus(split_by(pattern), pool);
    for (const std::string& document : documents) {
      split_by(pattern)(document, [&](std::string_view word) { whole.add(word, 1); });
      corpus.add(document);
    }
    EXPECT_TRUE(to_map(corpus.finish(UINT64_MAX).counts) == to_map(whole));
  }
}

TEST(WordCounts, AddUp) {
  WordCounts one, two;
  for (int i = 0; i < 5000; ++i) one.add("word" + std::to_string(i), 1);
  for (int i = 2500; i < 7500; ++i) two.add("word" + std::to_string(i), int64_t{1} << 40);
  one.add_all(two);
  EXPECT_EQ(one.size(), 7500u);
  const Counts counts = to_map(one);
  EXPECT_EQ(counts.at("word0"), 1);
  EXPECT_EQ(counts.at("word3000"), (int64_t{1} << 40) + 1);
  EXPECT_EQ(counts.at("word7000"), int64_t{1} << 40);
}

}  // namespace
}  // namespace athanor::tests::corpus_words_test
