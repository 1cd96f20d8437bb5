#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "athanor/base/error.h"
#include "athanor/corpus/dedup/cut.h"
#include "athanor/corpus/dedup/key_method.h"
#include "athanor/corpus/dedup/paragraphs.h"
#include "athanor/corpus/dedup/sentences.h"

namespace athanor::tests::dedup_spans_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ranges = std::vector<TextRange>;

std::vector<std::string> parts_of(const std::string& text, const Ranges& ranges) {
  std::vector<std::string> parts;
  for (const TextRange& range : ranges) parts.emplace_back(range.of(text));
  return parts;
}

std::vector<std::string> sentences_of(const std::string& text) {
  return parts_of(text, SentenceSplitter().split(text));
}

TEST(TextRangeTest, TrimsUnicodesWhiteSpace) {
  const auto inner = [](const std::string& text) {
    return std::string(trimmed(text, {0, static_cast<uint32_t>(text.size())}).of(text));
  };
  EXPECT_EQ(inner(""), "");
  EXPECT_EQ(inner(" \t\r\n"), "");
  EXPECT_EQ(inner(" a b\r\n"), "a b");
  EXPECT_EQ(inner("\xE3\x80\x80\xE4\xBD\xA0\xC2\xA0"), "\xE4\xBD\xA0");
  EXPECT_EQ(inner("\x80\x80"), "\x80\x80");
  EXPECT_EQ(inner(std::string("\0", 1)), std::string("\0", 1));
  EXPECT_EQ(trimmed("  x  ", {1, 2}), (TextRange{2, 2}));
}

TEST(ParagraphsTest, AreTheLines) {
  const auto lines = [](const std::string& text) { return parts_of(text, paragraphs(text)); };
  EXPECT_THAT(lines(""), IsEmpty());
  EXPECT_THAT(lines("a"), ElementsAre("a"));
  EXPECT_THAT(lines("a\n"), ElementsAre("a\n"));
  EXPECT_THAT(lines("a\n\n b\nc"), ElementsAre("a\n", "\n", " b\n", "c"));
}

std::vector<SpanKey> keys_of(const DedupOptions& options, const std::string& text) {
  const auto method = make_key_method(options);
  EXPECT_TRUE(method->cuts_spans());
  std::vector<SpanKey> keys(1);
  method->keys({.text = text}, keys);
  return keys;
}

TEST(ParagraphsTest, KeysAreOfTheTrimmedLine) {
  const DedupOptions options{.method = "paragraph", .min_length = 3};
  const std::string text = "abc\n  abc \n\nab\nabd";
  const std::vector<SpanKey> keys = keys_of(options, text);
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[0].key, keys[1].key);
  EXPECT_NE(keys[0].key, keys[2].key);
  EXPECT_EQ(text.substr(keys[1].begin, keys[1].end - keys[1].begin), "  abc \n");
  EXPECT_EQ(text.substr(keys[2].begin, keys[2].end - keys[2].begin), "abd");
}

TEST(ParagraphsTest, LengthAtAboveAndBelowTheLimit) {
  for (const auto& [length, expected] : {std::pair<size_t, size_t>{31, 0}, {32, 1}, {33, 1}})
    EXPECT_EQ(keys_of({.method = "paragraph"}, std::string(length, 'x') + "    \n").size(), expected);
  EXPECT_EQ(keys_of({.method = "paragraph", .min_length = 1}, " \n\t\n").size(), 0U);
}

TEST(SentencesTest, EndWhereUnicodeSaysSo) {
  EXPECT_THAT(sentences_of(""), IsEmpty());
  EXPECT_THAT(sentences_of(" \n "), IsEmpty());
  EXPECT_THAT(sentences_of("One"), ElementsAre("One"));
  EXPECT_THAT(sentences_of("It rains. Does it? Yes!"), ElementsAre("It rains. ", "Does it? ", "Yes!"));
  EXPECT_THAT(sentences_of("He said: \"Go.\" (Now.) So"), ElementsAre("He said: \"Go.\" ", "(Now.) ", "So"));
  EXPECT_THAT(sentences_of("It is 3.5 m, e.g. here. Yes"), ElementsAre("It is 3.5 m, e.g. here. ", "Yes"));
  EXPECT_THAT(sentences_of("Wait... what? No\xE2\x80\xA6"), ElementsAre("Wait... what? ", "No\xE2\x80\xA6"));
}

TEST(SentencesTest, LineFeedsEndThemAndBlankLinesAreNone) {
  EXPECT_THAT(sentences_of("Title\nText one.\r\n\r\n\nTwo"),
              ElementsAre("Title\n", "Text one.\r\n\r\n\n", "Two"));
  EXPECT_THAT(sentences_of("\n\nA. B"), ElementsAre("A. ", "B"));
}

TEST(SentencesTest, Chinese) {
  const std::string text =
      "\xE4\xB8\x8B\xE9\x9B\xA8\xE4\xBA\x86\xE3\x80\x82\xE8\xB5\xB0\xE5\x90\x97\xEF\xBC\x9F\xE2\x80\x9C\xE8"
      "\xB5\xB0"
      "\xEF\xBC\x81\xE2\x80\x9D\xE5\xA5\xBD\xEF\xBC\x8C\xE8\xA1\x8C\xE3\x80\x82";
  EXPECT_THAT(sentences_of(text), ElementsAre("\xE4\xB8\x8B\xE9\x9B\xA8\xE4\xBA\x86\xE3\x80\x82",
                                              "\xE8\xB5\xB0\xE5\x90\x97\xEF\xBC\x9F",
                                              "\xE2\x80\x9C\xE8\xB5\xB0\xEF\xBC\x81\xE2\x80\x9D",
                                              "\xE5\xA5\xBD\xEF\xBC\x8C\xE8\xA1\x8C\xE3\x80\x82"));
}

TEST(SentencesTest, OpeningMarksBelongToWhatTheyOpen) {
  // 「走！」「好。」（完）, and a mark at the end.
  EXPECT_THAT(sentences_of("\u300C\u8D70\uFF01\u300D\u300C\u597D\u3002\u300D\uFF08\u5B8C\uFF09"),
              ElementsAre("\u300C\u8D70\uFF01\u300D", "\u300C\u597D\u3002\u300D", "\uFF08\u5B8C\uFF09"));
  EXPECT_THAT(sentences_of("\u597D\u3002\u201C"), ElementsAre("\u597D\u3002\u201C"));
  EXPECT_THAT(sentences_of("Go.(\u201CNow"), ElementsAre("Go.", "(\u201CNow"));
  EXPECT_THAT(sentences_of("(\n\u201C"), ElementsAre("(\n", "\u201C"));
}

TEST(SentencesTest, OddBytesAndRandomTextsAreCoveredWhole) {
  std::mt19937 random(2);
  const std::vector<std::string> parts = {"a",
                                          "B",
                                          ". ",
                                          "!",
                                          "\n",
                                          " ",
                                          "\xFF",
                                          "\xE4\xBD",
                                          "\xE3\x80\x82",
                                          "\"",
                                          std::string("\0", 1),
                                          "\xF0\x9F\x98\x80",
                                          "\r\n",
                                          "1."};
  const SentenceSplitter splitter;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (uint32_t i = random() % 40; i > 0; --i) text += parts[random() % parts.size()];
    const Ranges ranges = splitter.split(text);
    for (size_t i = 0; i < ranges.size(); ++i) {
      ASSERT_LT(ranges[i].begin, ranges[i].end);
      ASSERT_EQ(ranges[i].end, i + 1 < ranges.size() ? ranges[i + 1].begin : text.size());
    }
  }
}

TEST(SentencesTest, KeysAreOfThreeInARowSimplified) {
  const DedupOptions options{.method = "sentence"};
  EXPECT_THAT(keys_of(options, "One. Two."), IsEmpty());
  EXPECT_EQ(keys_of(options, "One. Two. Three.").size(), 1U);
  const std::string first = "Alpha. One 1! TWO. Three? Omega.", second = "ONE 2, two\nThree";
  const std::vector<SpanKey> one = keys_of(options, first);
  ASSERT_EQ(one.size(), 3U);
  EXPECT_EQ(first.substr(one[1].begin, one[1].end - one[1].begin), "One 1! TWO. Three? ");
  // Three sentences apart from case, numbers and marks; here the first two are one.
  EXPECT_THAT(keys_of(options, second), IsEmpty());
  const std::vector<SpanKey> two = keys_of(options, "ONE 2. Two!\nThree");
  ASSERT_EQ(two.size(), 1U);
  EXPECT_EQ(two[0].key, one[1].key);
  EXPECT_NE(two[0].key, one[0].key);
}

TEST(SentencesTest, SentencesWithoutWordsHaveNoKey) {
  EXPECT_THAT(keys_of({.method = "sentence"}, "!!!\n???\n---\n"), IsEmpty());
  EXPECT_EQ(keys_of({.method = "sentence", .sentences = 1}, "!!!\nWord.\n").size(), 1U);
  EXPECT_EQ(keys_of({.method = "sentence", .sentences = 2}, "A. B. C. D.").size(), 3U);
}

// Between two sentences their borders count: "a b" + "c" is not "a" + "b c", which would only matter for their order.
TEST(CutTest, TakesRangesOut) {
  const std::string text = "0123456789";
  EXPECT_EQ(cut(text, Ranges{}), text);
  EXPECT_EQ(cut(text, Ranges{{0, 10}}), "");
  EXPECT_EQ(cut(text, Ranges{{0, 1}}), "123456789");
  EXPECT_EQ(cut(text, Ranges{{9, 10}}), "012345678");
  EXPECT_EQ(cut(text, Ranges{{4, 6}, {1, 2}}), "0236789");
  EXPECT_EQ(cut(text, Ranges{{1, 5}, {3, 7}, {2, 4}, {7, 8}}), "089");
  EXPECT_EQ(cut(text, Ranges{{5, 5}}), text);
  EXPECT_THROW(cut(text, Ranges{{5, 11}}), Error);
  EXPECT_THROW(cut(text, Ranges{{5, 4}}), Error);
}

TEST(CutTest, TrimsOnlyWhatItCut) {
  EXPECT_EQ(cut("  a b  ", Ranges{}), "  a b  ");
  EXPECT_EQ(cut("  a b  ", Ranges{{3, 3}}), "  a b  ");
  EXPECT_EQ(cut("One. Two. Three.", Ranges{{10, 16}}), "One. Two.");
  EXPECT_EQ(cut("one\ntwo\nthree\n", Ranges{{4, 8}}), "one\nthree");
}

TEST(CutTest, EqualsABytewiseDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (uint32_t i = random() % 30; i > 0; --i) text += static_cast<char>('a' + random() % 26);
    std::vector<bool> gone(text.size());
    Ranges ranges;
    for (uint32_t i = random() % 5; i > 0; --i) {
      const auto begin = static_cast<uint32_t>(random() % (text.size() + 1));
      const auto end = static_cast<uint32_t>(begin + random() % (text.size() - begin + 1));
      ranges.push_back({begin, end});
      std::fill(gone.begin() + begin, gone.begin() + end, true);
    }
    std::string expected;
    for (size_t i = 0; i < text.size(); ++i)
      if (!gone[i]) expected += text[i];
    ASSERT_EQ(cut(text, ranges), expected);
  }
}

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(LeftOverTest, WordsAndSentencesAtTheirLimits) {
  const LeftOver limits(DedupOptions{});
  EXPECT_EQ(limits.count_words("One, two - three! \xE4\xBD\xA0\xE5\xA5\xBD\xE3\x80\x82"), 5);
  EXPECT_EQ(limits.count_sentences("One, two - three! \xE4\xBD\xA0\xE5\xA5\xBD\xE3\x80\x82"
                                   "Four"),
            3);
  const std::string three = "Aa bb. Cc dd. ";
  EXPECT_FALSE(limits.enough(three + repeated("Ee ", 45)));            // 49 words
  EXPECT_TRUE(limits.enough(three + repeated("Ee ", 46)));             // 50
  EXPECT_TRUE(limits.enough(three + repeated("Ee ", 47)));             // 51
  EXPECT_FALSE(limits.enough("Aa bb. " + repeated("Ee ", 60)));        // two sentences
  EXPECT_TRUE(limits.enough("Aa. Bb. " + repeated("Ee ", 60) + "."));  // three
  EXPECT_TRUE(limits.enough(repeated("Aa bb. ", 25)));
  EXPECT_FALSE(limits.enough(""));
  EXPECT_TRUE(LeftOver({.min_words = 0, .min_sentences = 0}).enough(""));
  EXPECT_FALSE(LeftOver({.min_words = 1, .min_sentences = 0}).enough(""));
  EXPECT_TRUE(LeftOver({.min_words = 1, .min_sentences = 0}).enough("a"));
}

}  // namespace
}  // namespace athanor::tests::dedup_spans_test
