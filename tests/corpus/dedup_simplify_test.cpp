// Expected texts were worked out with Python's str.lower and unicodedata, rule by rule.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "athanor/corpus/dedup/simplify.h"
#include "athanor/corpus/dedup/words.h"
#include "athanor/text/unicode.h"

namespace athanor::tests::dedup_simplify_test {
namespace {

using namespace std::string_view_literals;

struct Case {
  std::string_view text, simple;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"Hello,  World!\012\011Tabs"sv, "hello world tabs"sv},
      {"1.2.3 and 1,000,000.50"sv, "0 0 and 0 0"sv},
      {"v2.0-rc1"sv, "v0 rc0"sv},
      {"3.x 4,"sv, "0 x 0"sv},
      {"\331\243\331\253\331\244 \357\274\221\357\274\222"sv, "0 0"sv},
      {"\304\260STANBUL"sv, "istanbul"sv},
      {"\316\237\316\224\316\237\316\243 \316\243\316\221\316\243"sv,
       "\316\277\316\264\316\277\317\202 \317\203\316\261\317\202"sv},
      {"\303\205ngstr\303\266m \342\204\253 \341\272\233\314\243"sv, "angstrom a \305\277"sv},
      {"a \314\201 b"sv, "a  b"sv},
      {"\314\201 b"sv, "b"sv},
      {"\344\275\240\345\245\275\357\274\214\344\270\226\347\225\214\357\274\20112"sv,
       "\344\275\240\345\245\275 \344\270\226\347\225\214 0"sv},
      {"\355\225\234\352\265\255\354\226\264"sv,
       "\341\204\222\341\205\241\341\206\253\341\204\200\341\205\256\341\206\250\341\204\213\341\205\245"sv},
      {"\340\270\240\340\270\262\340\270\251\340\270\262\340\271\204\340\270\227\340\270\242"sv,
       "\340\270\240\340\270\262\340\270\251\340\270\262\340\271\204\340\270\227\340\270\242"sv},
      {"\340\244\271\340\244\277\340\244\250\340\245\215\340\244\246\340\245\200"sv,
       "\340\244\271\340\244\277\340\244\250\340\244\246\340\245\200"sv},
      {"\343\201\214\343\201\216"sv, "\343\201\213\343\201\215"sv},
      {"e\314\201\314\202 E\314\243\314\201"sv, "e e"sv},
      {"a\302\240b\342\200\203c\343\200\200d\342\200\250e"sv, "a b c d e"sv},
      {"x\000y\177z\302\205w"sv, "x y z w"sv},
      {"\342\211\240 \341\277\257 \342\200\246 \302\264 \342\226\272 \342\224\201 \357\275\236 \302\243 + = $"sv,
       "= ` \302\243"sv},
      {"\360\235\205\237 \360\237\230\200\342\200\215X"sv,
       "\360\235\205\230\360\235\205\245 \360\237\230\200\342\200\215x"sv},
      {""sv, ""sv},
      {"   "sv, ""sv},
      {"\341\254\205\341\254\265"sv, "\341\254\205\341\254\265"sv},
      {"\320\220\320\231\320\201"sv, "\320\260\320\270\320\265"sv},
      {"A\342\200\213B"sv, "a\342\200\213b"sv},
      {"\307\205 \341\272\236 \357\254\201"sv, "\307\206 \303\237 \357\254\201"sv},
      {"\341\254\223\341\255\204\343\200\256"sv, "\341\254\223\341\255\204\343\200\256"sv},
  };
  return all;
}

TEST(DedupSimplifyTest, EqualsFiguresWorkedOutElsewhere) {
  const Simplifier simplifier;
  for (const Case& c : cases()) {
    EXPECT_EQ(simplifier.simplify(c.text), c.simple) << c.text;
    EXPECT_EQ(simplify_plainly(c.text), c.simple) << c.text;
  }
}

TEST(DedupSimplifyTest, AllOfAsciisPunctuationIsSpace) {
  const Simplifier simplifier;
  for (int c = 0; c < 128; ++c) {
    const std::string text = {'a', static_cast<char>(c), 'b'};
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const std::string simple = simplifier.simplify(text);
    EXPECT_EQ(simple.size(), 3U) << c;
    EXPECT_EQ(simple[1] != ' ', kept) << c;
  }
}

TEST(DedupSimplifyTest, EveryCharacterBothWays) {
  const Simplifier simplifier;
  for (uint32_t c = 0; c < 0x30000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text = "Ab ";
    text::append_utf8(text, c);
    text += " ";
    text::append_utf8(text, c);
    text += "C";
    ASSERT_EQ(simplifier.simplify(text), simplify_plainly(text)) << "U+" << std::hex << c;
  }
}

// Marks, sigmas, digits, marks between digits, Hangul, letters that grow, characters of four bytes, broken bytes.
TEST(DedupSimplifyTest, RandomTextsBothWays) {
  const Simplifier simplifier;
  const std::vector<std::string> parts = {"a",
                                          "Z",
                                          " ",
                                          "  ",
                                          "\n",
                                          ".",
                                          ",",
                                          "1",
                                          "23",
                                          "\303\251",
                                          "\303\211",
                                          "\314\201",
                                          "\314\243",
                                          "\316\243",
                                          "\316\261",
                                          "\331\253",
                                          "\331\243",
                                          "\310\272",
                                          "\xFF",
                                          "\xC3",
                                          "\355\225\234",
                                          "\xE4\xBD\xA0",
                                          "\360\235\205\237",
                                          "\360\237\230\200",
                                          "\341\255\204",
                                          "\343\200\256",
                                          "\304\260",
                                          "\xE2\x80"};
  std::mt19937 random(7);
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (uint32_t i = random() % 30; i > 0; --i) text += parts[random() % parts.size()];
    ASSERT_EQ(simplifier.simplify(text), simplify_plainly(text)) << round << ": " << text;
  }
}

TEST(DedupSimplifyTest, LongTextsCrossChunks) {
  const Simplifier simplifier;
  std::string hangul, words, digits(10000, '7');
  for (int i = 0; i < 5000; ++i) hangul += "\355\225\234";  // each three characters of three bytes
  for (int i = 0; i < 5000; ++i) words += "W, ";
  EXPECT_EQ(simplifier.simplify(hangul).size(), 5000U * 9);
  EXPECT_EQ(simplifier.simplify(words).size(), 5000U * 2 - 1);
  EXPECT_EQ(simplifier.simplify(digits + "." + digits), "0");
  EXPECT_EQ(simplifier.simplify(std::string(9000, ' ')), "");
}

TEST(DedupSimplifyTest, BrokenBytesBecomeReplacementCharacters) {
  EXPECT_EQ(Simplifier().simplify("a\xFF\xC3"), "a\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(simplify_plainly("\xE4\xBD"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

std::vector<std::string> words_of(std::string simple) {
  const Words words = split_words(std::move(simple));
  std::vector<std::string> out;
  for (size_t i = 0; i < words.count(); ++i) out.emplace_back(words.stretch(i, 1));
  return out;
}

using List = std::vector<std::string>;

TEST(DedupWordsTest, SpacesPartWords) {
  EXPECT_EQ(words_of(""), List());
  EXPECT_EQ(words_of("a"), List({"a"}));
  EXPECT_EQ(words_of("the old man"), List({"the", "old", "man"}));
  EXPECT_EQ(words_of("a  b"), List({"a", "b"}));
  EXPECT_EQ(words_of(" a "), List({"a"}));
  EXPECT_EQ(words_of("\xD0\xB0\xD0\xB1 \xD0\xB2"), List({"\xD0\xB0\xD0\xB1", "\xD0\xB2"}));
  EXPECT_EQ(words_of("\xFF\xE4 b"), List({"\xFF\xE4", "b"}));
}

TEST(DedupWordsTest, ScriptsWithoutSpacesHaveAWordForEachCharacter) {
  EXPECT_EQ(words_of("\xE4\xBD\xA0\xE5\xA5\xBD"), List({"\xE4\xBD\xA0", "\xE5\xA5\xBD"}));
  EXPECT_EQ(words_of("abc\xE4\xBD\xA0xy z\xE5\xA5\xBD"),
            List({"abc", "\xE4\xBD\xA0", "xy", "z", "\xE5\xA5\xBD"}));
  EXPECT_EQ(words_of("\xE3\x81\x8B\xE3\x82\xAB"), List({"\xE3\x81\x8B", "\xE3\x82\xAB"}));  // kana
  EXPECT_EQ(words_of("\xE0\xB8\xA0\xE0\xB8\xB2"), List({"\xE0\xB8\xA0", "\xE0\xB8\xB2"}));  // Thai
  EXPECT_EQ(words_of("\xF0\xA0\x80\x80"
                     "0"),
            List({"\xF0\xA0\x80\x80", "0"}));                  // U+20000
  EXPECT_EQ(words_of("\xE1\x84\x92\xE1\x85\xA1").size(), 1U);  // Hangul has spaces
  EXPECT_EQ(words_of("\xE2\x82\xAC"
                     "0")
                .size(),
            1U);  // U+20AC, a symbol
}

TEST(DedupWordsTest, StretchesAreJoinedByOneSpace) {
  const Words words = split_words("in  \xE4\xBD\xA0\xE5\xA5\xBD x");
  EXPECT_EQ(words.text, "in \xE4\xBD\xA0 \xE5\xA5\xBD x");
  EXPECT_EQ(words.stretch(0, 4), words.text);
  EXPECT_EQ(words.stretch(1, 2), "\xE4\xBD\xA0 \xE5\xA5\xBD");
  EXPECT_EQ(words.stretch(3, 1), "x");
}

}  // namespace
}  // namespace athanor::tests::dedup_simplify_test
