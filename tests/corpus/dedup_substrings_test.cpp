#include "athanor/corpus/dedup/substrings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "athanor/base/error.h"

namespace athanor::tests::dedup_substrings_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Texts = std::vector<std::string>;

TextBlock block_of(const Texts& texts) {
  TextBlock block;
  for (const std::string& text : texts) block.add(text);
  return block;
}

std::vector<std::string> repeated_in(const Texts& texts, int64_t min_bytes) {
  std::vector<std::string> out;
  for (const BlockRange& part : repeated_substrings(block_of(texts), min_bytes))
    out.push_back(std::to_string(part.text) + ":" + std::string(part.range.of(texts[part.text])));
  return out;
}

TEST(SubstringsTest, LaterOccurrencesAreFound) {
  EXPECT_THAT(repeated_in({}, 3), IsEmpty());
  EXPECT_THAT(repeated_in({"", "", ""}, 1), IsEmpty());
  EXPECT_THAT(repeated_in({"abcdef"}, 3), IsEmpty());
  EXPECT_THAT(repeated_in({"xabcdy", "1abcd2", "3abc"}, 3), ElementsAre("1:abcd", "2:abc"));
  EXPECT_THAT(repeated_in({"abc-abc"}, 3), ElementsAre("0:abc"));
  EXPECT_THAT(repeated_in({"the first document", "a document with a passage of the first"}, 10), IsEmpty());
  EXPECT_THAT(repeated_in({"the first document", "a document with a passage of the first"}, 9),
              ElementsAre("1: document", "1:the first"));
}

TEST(SubstringsTest, LengthAtAboveAndBelowTheLimit) {
  const Texts texts = {"-12345-", "+12345+"};
  EXPECT_THAT(repeated_in(texts, 4), ElementsAre("1:12345"));
  EXPECT_THAT(repeated_in(texts, 5), ElementsAre("1:12345"));
  EXPECT_THAT(repeated_in(texts, 6), IsEmpty());
  EXPECT_THAT(repeated_in({"abc", "abc"}, 3), ElementsAre("1:abc"));
  EXPECT_THAT(repeated_in({"abc", "abc"}, 100), IsEmpty());
  EXPECT_THROW(repeated_in(texts, 0), Error);
}

TEST(SubstringsTest, NothingReachesAcrossTexts) {
  EXPECT_THAT(repeated_in({"ab", "cd", "abcd"}, 3), IsEmpty());
  EXPECT_THAT(repeated_in({"abcd", "ab", "cd"}, 3), IsEmpty());
  EXPECT_THAT(repeated_in({"abcd", "ab", "cd"}, 2), ElementsAre("1:ab", "2:cd"));
}

TEST(SubstringsTest, APassageDoesNotRepeatItselfByOverlap) {
  EXPECT_THAT(repeated_in({"aaaaaaaaaa"}, 4), ElementsAre("0:aaaaaa"));
  EXPECT_THAT(repeated_in({"aaaaaaa"}, 4), IsEmpty());  // the second would overlap
  EXPECT_THAT(repeated_in({"abababab"}, 4), ElementsAre("0:abab"));
}

TEST(SubstringsTest, PartsAreWholeCodePoints) {
  // E4 BD A0 and E4 BD B0 share two bytes, A5 BD and 25 BD one.
  EXPECT_THAT(repeated_in({"ab\xE4\xBD\xA0", "ab\xE4\xBD\xB0"}, 3), ElementsAre("1:ab"));
  EXPECT_THAT(repeated_in({"\xE5\xA5\xBD"
                           "cd",
                           "\xE6\xA5\xBD"
                           "cd"},
                          3),
              ElementsAre("1:cd"));
  EXPECT_THAT(repeated_in({"\xE4\xBD\xA0", "\xE4\xBD\xB0"}, 2), IsEmpty());
  EXPECT_THAT(repeated_in({"x\xE4\xBD\xA0\xE5\xA5\xBD", "y\xE4\xBD\xA0\xE5\xA5\xBD"}, 6),
              ElementsAre("1:\xE4\xBD\xA0\xE5\xA5\xBD"));
}

// By comparing all places with all that come before.
std::vector<BlockRange> by_comparing(const Texts& texts, size_t length) {
  std::vector<BlockRange> found;
  for (size_t i = 0; i < texts.size(); ++i) {
    std::vector<bool> covered(texts[i].size() + 1);
    for (size_t at = 0; at + length <= texts[i].size(); ++at) {
      const std::string part = texts[i].substr(at, length);
      bool before = texts[i].substr(0, at).find(part) != std::string::npos;
      for (size_t j = 0; j < i; ++j) before |= texts[j].find(part) != std::string::npos;
      if (before)
        std::fill(covered.begin() + static_cast<ptrdiff_t>(at),
                  covered.begin() + static_cast<ptrdiff_t>(at + length), true);
    }
    for (uint32_t at = 0; at < texts[i].size(); ++at) {
      if (!covered[at]) continue;
      const uint32_t begin = at;
      while (covered[at]) ++at;
      found.push_back({i, {begin, at}});
    }
  }
  return found;
}

TEST(SubstringsTest, EqualsComparingAllWithAll) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    Texts texts(random() % 6);
    const uint32_t letters = 1 + random() % 4;
    for (std::string& text : texts)
      for (uint32_t i = random() % 40; i > 0; --i) text += static_cast<char>('a' + random() % letters);
    const size_t length = 1 + random() % 9;
    ASSERT_EQ(repeated_substrings(block_of(texts), static_cast<int64_t>(length)),
              by_comparing(texts, length));
  }
}

TEST(SubstringsTest, OptionsAndMemory) {
  EXPECT_EQ(substring_min_bytes(DedupOptions{}), 200);
  EXPECT_EQ(substring_min_bytes({.min_length = 7}), 7);
  EXPECT_GE(substring_memory(1000000), 5250000U);
  EXPECT_EQ(block_of({"ab", "", "c"}).end(1), 2U);
  EXPECT_EQ(block_of({"ab", "", "c"}).begin(2), 2U);
}

}  // namespace
}  // namespace athanor::tests::dedup_substrings_test
