// The parts together, as a build puts them: keys, sorted records, pairs, then components or cuts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "athanor/corpus/dedup/components.h"
#include "athanor/corpus/dedup/cut.h"
#include "athanor/corpus/dedup/duplicate_pairs.h"
#include "athanor/corpus/dedup/key_method.h"
#include "athanor/corpus/dedup/record_sorter.h"
#include "support/temporary_folder.h"

namespace athanor::tests::dedup_flow_test {
namespace {

using ::testing::ElementsAre;
using Texts = std::vector<std::string>;

class DedupFlowTest : public ::testing::Test {
 protected:
  void add_keys(RecordSorter& sorter, const DedupOptions& options, const Texts& texts) {
    const auto method = make_key_method(options);
    std::vector<SpanKey> keys;
    for (uint64_t number = 0; number < texts.size(); ++number) {
      method->keys({.text = texts[number]}, keys);
      for (const SpanKey& key : keys) sorter.add({key.key, number, key.begin, key.end});
    }
  }

  Texts kept(const DedupOptions& options, const Texts& texts, uint64_t memory_bytes,
             const DuplicatePairs::Survives& survives) {
    RecordSorter sorter(env_, temporary_.path("sort"), memory_bytes);
    add_keys(sorter, options, texts);
    Components components(texts.size());
    DuplicatePairs pairs(survives, [&](const KeyRecord& first, const KeyRecord& later) {
      components.join(first.document, later.document);
    });
    sorter.merge([&](const KeyRecord& record) { pairs.add(record); });
    Texts out;
    for (uint64_t i = 0; i < texts.size(); ++i)
      if (survives(i) && components.is_kept(i)) out.push_back(texts[i]);
    return out;
  }

  Texts cut_texts(const DedupOptions& options, Texts texts, uint64_t memory_bytes) {
    RecordSorter sorter(env_, temporary_.path("sort"), memory_bytes);
    RecordSorter places(env_, temporary_.path("places"), memory_bytes);
    add_keys(sorter, options, texts);
    DuplicatePairs pairs([](uint64_t) { return true; },
                         [&](const KeyRecord&, const KeyRecord& later) { places.add(by_place(later)); });
    sorter.merge([&](const KeyRecord& record) { pairs.add(record); });
    std::map<uint64_t, std::vector<TextRange>> ranges;
    uint64_t last = 0;
    places.merge([&](const KeyRecord& record) {
      EXPECT_GE(record.document, last);  // so that a build holds the ranges of one document alone
      last = record.document;
      ranges[record.document].push_back({record.begin, record.end});
    });
    for (const auto& [document, parts] : ranges) texts[document] = cut(texts[document], parts);
    return texts;
  }

  TemporaryFolder temporary_;
  Env& env_ = system_env();
};

constexpr uint64_t kMuch = 1 << 20;

TEST_F(DedupFlowTest, ExactKeepsTheFirstThatSurvives) {
  const Texts texts = {"a", "b", "a", "c", "b", "a"};
  const DedupOptions options{.method = "exact"};
  EXPECT_THAT(kept(options, texts, kMuch, [](uint64_t) { return true; }), ElementsAre("a", "b", "c"));
  // The first "a" was dropped before: the second stays, the third is its copy.
  EXPECT_THAT(kept(options, texts, kMuch, [](uint64_t i) { return i != 0; }), ElementsAre("b", "a", "c"));
}

TEST_F(DedupFlowTest, MinhashKeepsOneOfAChainForAnyMemory) {
  std::mt19937 random(1);
  Texts texts;
  std::vector<std::string> words;
  for (int i = 0; i < 300; ++i) {
    if (i % 3 == 0) {
      words.clear();
      for (int j = 0; j < 150; ++j)
        words.push_back("w" + std::string(1 + random() % 6, static_cast<char>('a' + random() % 26)) +
                        static_cast<char>('a' + random() % 26));
    } else {
      words[random() % 5] = "other" + std::string(1, static_cast<char>('a' + i % 26));
    }
    std::string text;
    for (const std::string& word : words) text += word + " ";
    texts.push_back(text);
  }
  const auto all = [](uint64_t) { return true; };
  const Texts first = kept({}, texts, kMuch, all);
  EXPECT_EQ(first.size(), 100U);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i], texts[3 * i]);
  EXPECT_EQ(kept({}, texts, kMinSortBytes, all), first);
}

TEST_F(DedupFlowTest, ParagraphsAfterTheirFirstOccurrenceAreCut) {
  const DedupOptions options{.method = "paragraph", .min_length = 3};
  const Texts texts = {"one\ntwo\n  one", "new\ntwo\nend", "two\n", "no\nno"};
  for (const uint64_t memory : {kMinSortBytes, kMuch})
    EXPECT_THAT(cut_texts(options, texts, memory), ElementsAre("one\ntwo", "new\nend", "", "no\nno"));
}

TEST_F(DedupFlowTest, ThreeSentencesAfterTheirFirstOccurrenceAreCut) {
  const DedupOptions options{.method = "sentence"};
  const Texts texts = {"Alpha. Beta. Gamma. Delta.", "Zero. alpha! BETA? Gamma. End.",
                       "Beta. Gamma. Delta. Epsilon.", "Beta. Gamma. Other."};
  // "Zero. alpha! " are two: UAX #29 goes on behind a full stop where a small letter follows.
  EXPECT_THAT(cut_texts(options, texts, kMuch), ElementsAre(texts[0], texts[1], "Epsilon.", texts[3]));
  EXPECT_THAT(cut_texts(options, {texts[0], "Zero. Alpha! BETA? Gamma. End."}, kMuch),
              ElementsAre(texts[0], "Zero. End."));
}

}  // namespace
}  // namespace athanor::tests::dedup_flow_test
