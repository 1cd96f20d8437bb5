// The merges of BPE against a trainer that counts all pairs anew before each merge, and the queue that it takes them from.
#include "athanor/text/trainers/bpe_trainer.h"

#include <gtest/gtest.h>

#include <map>
#include <queue>
#include <string>

#include "text/dice.h"

namespace athanor::tests::bpe_trainer_test {
namespace {

using text::trainers::BpeTrainer;
using text::trainers::MergeCandidate;
using text::trainers::MergeQueue;
using text::trainers::WordLists;

using Symbols = std::vector<int32_t>;
using Merges = std::vector<std::pair<int32_t, int32_t>>;

struct CountedSymbols {
  Symbols symbols;
  int64_t count;
};

// Equal counts: the smallest pair first, as it stands in the map. A merge whose text is there already has its id.
Merges merges_counted_anew(std::vector<std::string> tokens, std::vector<CountedSymbols> words, size_t most) {
  Merges merges;
  while (tokens.size() < most) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const CountedSymbols& word : words)
      for (size_t i = 0; i + 1 < word.symbols.size(); ++i)
        counts[{word.symbols[i], word.symbols[i + 1]}] += word.count;
    std::pair<int32_t, int32_t> best;
    int64_t most_often = 0;
    for (const auto& [pair, count] : counts)
      if (count > most_often) best = pair, most_often = count;
    if (most_often == 0) break;
    const std::string text =
        tokens[static_cast<size_t>(best.first)] + tokens[static_cast<size_t>(best.second)];
    size_t id = 0;
    while (id < tokens.size() && tokens[id] != text) ++id;
    if (id == tokens.size()) tokens.push_back(text);
    merges.push_back(best);
    for (CountedSymbols& word : words) {
      Symbols merged;
      for (size_t i = 0; i < word.symbols.size(); ++i) {
        const bool is_pair = i + 1 < word.symbols.size() && word.symbols[i] == best.first &&
                             word.symbols[i + 1] == best.second;
        merged.push_back(is_pair ? static_cast<int32_t>(id) : word.symbols[i]);
        if (is_pair) ++i;
      }
      word.symbols = merged;
    }
  }
  return merges;
}

TEST(BpeTrainer, LearnsWhatCountingAnewLearns) {
  Dice dice(32);
  for (int round = 0; round < 60; ++round) {
    const size_t letters = 2 + dice.below(5);
    std::vector<std::string> tokens;
    for (size_t i = 0; i < letters; ++i) tokens.emplace_back(1, static_cast<char>('a' + i));
    std::vector<CountedSymbols> words;
    for (size_t w = 0; w < 1 + dice.below(60); ++w) {
      Symbols symbols(1 + dice.below(20));
      for (int32_t& symbol : symbols) symbol = static_cast<int32_t>(dice.below(letters));
      words.push_back({symbols, static_cast<int64_t>(1 + dice.below(round % 2 == 0 ? 3 : 1000000))});
    }
    BpeTrainer trainer(tokens, {});
    for (const CountedSymbols& word : words) trainer.add_word(word.symbols, word.count);
    trainer.run(200, 0, {});
    EXPECT_EQ(trainer.merges(), merges_counted_anew(tokens, words, 200)) << round;
  }
}

TEST(MergeQueue, GivesTheLargestCountThenTheSmallestPair) {
  Dice dice(7);
  for (const size_t largest : {3, 100, 2000000000}) {
    MergeQueue queue;
    std::priority_queue<MergeCandidate> expected;
    for (int i = 0; i < 20000; ++i) {
      if (!expected.empty() && dice.below(5) < 2) {
        const MergeCandidate top = queue.pop();
        ASSERT_EQ(top.count, expected.top().count);
        ASSERT_EQ(top.pair, expected.top().pair);
        expected.pop();
      } else {
        const MergeCandidate candidate{static_cast<int64_t>(1 + dice.below(largest)), dice.below(1000)};
        queue.push(candidate);
        expected.push(candidate);
      }
      ASSERT_EQ(queue.empty(), expected.empty());
    }
  }
  MergeQueue queue;
  queue.push({INT64_MAX, 1});
  queue.push({1, 2});
  EXPECT_EQ(queue.pop().count, INT64_MAX);
  EXPECT_EQ(queue.pop().count, 1);
}

TEST(WordLists, HoldEachWordOnceInItsOrder) {
  WordLists lists;
  WordLists::List one = WordLists::kNone, many = WordLists::kNone;
  EXPECT_TRUE(lists.take(one).empty());
  for (const uint32_t word : {0u, 0u}) lists.add(one, word);
  for (const uint32_t word : {5u, 5u, 7u, 7u, 0x7FFFFFFFu}) lists.add(many, word);
  lists.append(one, many);
  EXPECT_EQ(lists.take(one), (std::vector<uint32_t>{0, 5, 7, 0x7FFFFFFF}));
  EXPECT_EQ(one, WordLists::kNone);
  EXPECT_EQ(many, WordLists::kNone);
  EXPECT_TRUE(lists.take(one).empty());
}

}  // namespace
}  // namespace athanor::tests::bpe_trainer_test
