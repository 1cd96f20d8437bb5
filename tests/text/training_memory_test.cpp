// Training in bounded memory: counted words that go to a disk come back as they were, and what is left out are the rarest.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "athanor/base/error.h"
#include "athanor/text/trainers/trainer.h"
#include "athanor/text/trainers/word_runs.h"
#include "support/temporary_folder.h"
#include "text/dice.h"

namespace athanor::tests::training_memory_test {
namespace {

using text::trainers::most_frequent;
using text::trainers::UseWord;
using text::trainers::WordCounts;
using text::trainers::WordRuns;
using Counted = std::map<std::string, int64_t>;

Counted all_of(const std::function<void(const UseWord&)>& for_each) {
  Counted words;
  std::string before;
  bool first = true;
  for_each([&](std::string_view word, int64_t count) {
    EXPECT_TRUE(first || std::string(word) > before) << "each once, in the order of bytes";
    first = false;
    before = word;
    words[before] = count;
  });
  return words;
}

// More runs than are read at a time; words of no bytes, of zeros, longer than a buffer.
TEST(WordRuns, GiveEachWordOnceWithTheSumOfItsCounts) {
  const TemporaryFolder folder;
  Counted expected;
  {
    WordRuns runs({.env = &system_env(), .folder = folder.path("words"), .memory_bytes = 1});
    EXPECT_TRUE(runs.empty());
    Dice dice(7);
    for (int run = 0; run < 150; ++run) {
      WordCounts counts;
      const auto add = [&](const std::string& word, int64_t count) {
        counts.add(word, count);
        expected[word] += count;
      };
      for (uint64_t i = dice.below(40); i > 0; --i)
        add(fmt::format("w{}", dice.below(200)), 1 + static_cast<int64_t>(dice.below(uint64_t{1} << 40)));
      if (run % 9 == 0) add("", 2);
      if (run % 7 == 0) add(std::string("\0\0", 2), 3);
      if (run % 50 == 3) add(std::string(200'000, static_cast<char>(run)), 1);
      runs.add(counts);
    }
    EXPECT_FALSE(runs.empty());
    EXPECT_LE(system_env().list(folder.path("words")).size(), 64u);
    EXPECT_EQ(all_of([&](const UseWord& use) { runs.for_each(use); }), expected);
  }
  EXPECT_FALSE(system_env().exists(folder.path("words")));
}

TEST(WordRuns, WhatAKilledTrainingLeftIsRemoved) {
  const TemporaryFolder folder;
  system_env().create_folders(folder.path("words"));
  system_env().write_atomically(folder.path("words/run-000000"), "half a word");
  WordRuns runs({.env = &system_env(), .folder = folder.path("words"), .memory_bytes = 1});
  EXPECT_FALSE(system_env().exists(folder.path("words")));
  WordCounts counts;
  counts.add("a", 1);
  runs.add(counts);
  EXPECT_EQ(all_of([&](const UseWord& use) { runs.for_each(use); }), (Counted{{"a", 1}}));
}

TEST(MostFrequent, KeepsAsManyAsThereIsRoomFor) {
  std::vector<std::pair<int64_t, std::string>>
      words;  // counts below zero, so that the most frequent come first
  Dice dice(3);
  for (int i = 0; i < 500; ++i)
    words.emplace_back(-1 - static_cast<int64_t>(dice.below(30)), fmt::format("{:05}", i));
  const auto for_each = [&](const UseWord& use) {
    for (const auto& [count, word] : words) use(word, -count);
  };
  auto sorted = words;
  std::ranges::sort(sorted);
  const uint64_t each = WordCounts::bytes_of("00000");
  for (const size_t kept : {0, 1, 7, 250, 499, 500}) {
    for (const uint64_t more : {uint64_t{0}, each - 1}) {
      const auto found = most_frequent(for_each, kept * each + more);
      Counted expected, got;
      for (size_t i = 0; i < kept; ++i) expected[sorted[i].second] = -sorted[i].first;
      found.counts.for_each([&](std::string_view word, int64_t count) { got[std::string(word)] = count; });
      EXPECT_EQ(got, expected) << kept << " and " << more << " bytes";
      EXPECT_EQ(found.words, static_cast<int64_t>(kept));
      EXPECT_EQ(found.all_words, 500);
    }
  }
}

// Words of letters, " aaaaa" to " hhhhh..", those in front more often.
std::string text_of(uint64_t distinct, int64_t words, uint64_t seed) {
  Dice dice(seed);
  std::string text;
  for (int64_t i = 0; i < words; ++i) {
    uint64_t word = std::min(dice.below(distinct), dice.below(distinct));
    text += ' ';
    for (int letter = 0; letter < 6; ++letter, word /= 8) text += "abcdefgh"[word % 8];
  }
  return text;
}

struct Trained {
  std::string file;
  LearnedWords learned;
  size_t runs = 0;
};

Trained trained(TokenizerTrainerOptions options, const std::vector<std::string>& documents) {
  const TemporaryFolder folder;
  options.env = &system_env();
  options.scratch_folder = folder.path("words");
  TokenizerTrainer trainer(options);
  Trained result;
  for (const std::string& document : documents) {
    trainer.add(document);
    if (system_env().exists(folder.path("words")))
      result.runs = std::max(result.runs, system_env().list(folder.path("words")).size());
  }
  result.file = trainer.finish();
  result.learned = trainer.learned();
  return result;
}

TEST(TrainingMemory, WordsThatWereOnTheDiskAreTheSameWords) {
  const std::vector<std::string> documents(
      5, text_of(1'500, 500'000, 1));  // so many bytes are counted before the end
  for (const char* type : {"byte-bpe", "bpe", "wordpiece", "unigram"}) {
    TokenizerTrainerOptions options{.type = type, .vocab_size = 320, .num_threads = 6};
    const Trained free = trained(options, documents);
    options.memory_bytes = 1 << 20;
    const Trained bounded = trained(options, documents);
    EXPECT_EQ(free.runs, 0u);
    EXPECT_GT(bounded.runs, 5u) << "or nothing is tried";
    EXPECT_EQ(bounded.learned.words, bounded.learned.all_words) << type;
    EXPECT_EQ(bounded.file, free.file) << type;
  }
}

TEST(TrainingMemory, TheRarestAreLeftOutWhateverTheThreads) {
  const std::vector<std::string> documents(4, text_of(40'000, 500'000, 2));
  Counted distinct;
  for (size_t at = 0; at < documents[0].size(); at += 7) ++distinct[documents[0].substr(at, 7)];
  std::vector<Trained> all;
  for (const int threads : {1, 2, 5})
    all.push_back(trained(
        {.type = "byte-bpe", .vocab_size = 400, .memory_bytes = 1 << 20, .num_threads = threads}, documents));
  for (const Trained& each : all) {
    EXPECT_EQ(each.file, all[0].file);
    EXPECT_EQ(each.learned.words, all[0].learned.words);
    EXPECT_EQ(each.learned.all_words, std::ssize(distinct));
    EXPECT_EQ(each.learned.all_occurrences, 2'000'000);
    EXPECT_LT(each.learned.words, 6'000);
    EXPECT_GT(each.learned.words, 3'000);
    EXPECT_GT(each.learned.occurrences, each.learned.words * (2'000'000 / 40'000));
  }
}

TEST(TrainingMemory, TooLittleIsRefused) {
  try {
    const TokenizerTrainer trainer({.memory_bytes = 1000});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "memory: got 1000 B, expected at least 1.0 MiB");
  }
}

}  // namespace
}  // namespace athanor::tests::training_memory_test
