#include "athanor/text/pre_tokenizers/word_scanner.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "athanor/text/pre_tokenizers/regex.h"
#include "athanor/text/unicode.h"
#include "text/dice.h"

namespace athanor::tests::word_scanner_test {

using namespace text;
namespace {

using Words = std::vector<std::string>;

Words scan(WordPattern pattern, std::string_view text) {
  Words words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = word_end(pattern, text, at);
    if (end <= at || end > text.size()) throw std::logic_error("scanner stands still");
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

// Gaps are words where they are expected.
Words match(WordPattern pattern, const Regex& regex, std::string_view text) {
  Words words;
  size_t last_end = 0;
  regex.for_each_match(text, [&](size_t begin, size_t end) {
    EXPECT_TRUE(leaves_gaps(pattern) || begin == last_end) << "the pattern leaves a gap";
    if (begin > last_end) words.emplace_back(text.substr(last_end, begin - last_end));
    words.emplace_back(text.substr(begin, end - begin));
    last_end = end;
  });
  EXPECT_TRUE(leaves_gaps(pattern) || last_end == text.size());
  if (last_end < text.size()) words.emplace_back(text.substr(last_end));
  return words;
}

constexpr WordPattern kPatterns[] = {
    WordPattern::gpt2, WordPattern::cl100k,          WordPattern::qwen2,        WordPattern::o200k,
    WordPattern::nemo, WordPattern::deepseek_digits, WordPattern::deepseek_cjk, WordPattern::deepseek_words};

TEST(WordScanner, CutsByHand) {
  EXPECT_EQ(scan(WordPattern::gpt2, "Hello world, it's 2024!  \n x"),
            (Words{"Hello", " world", ",", " it", "'s", " 2024", "!", "  \n", " x"}));
  EXPECT_EQ(scan(WordPattern::cl100k, "Hello world, IT'S 20245!\n\n  x"),
            (Words{"Hello", " world", ",", " IT", "'S", " ", "202", "45", "!\n\n", " ", " x"}));
  EXPECT_EQ(scan(WordPattern::qwen2, "a 12"), (Words{"a", " ", "1", "2"}));
  EXPECT_EQ(scan(WordPattern::o200k, "HTTPServer don't I'LL 1234 //\n/x"),
            (Words{"HTTPServer", " don't", " I'LL", " ", "123", "4", " //\n/", "x"}));
  EXPECT_EQ(scan(WordPattern::o200k, "fooBarBAZ \u8A9EABC"), (Words{"foo", "Bar", "BAZ", " \u8A9E", "ABC"}));
  EXPECT_EQ(scan(WordPattern::nemo, "it's 12"), (Words{"it", "'s", " ", "1", "2"}));
  EXPECT_EQ(scan(WordPattern::gpt2, "\u4F60\u597D\uFF0C\u4E16\u754C"),
            (Words{"\u4F60\u597D", "\uFF0C", "\u4E16\u754C"}));
}

TEST(WordScanner, KnowsItsOwnExpressions) {
  for (const WordPattern pattern : kPatterns) EXPECT_EQ(known_pattern(regex_of(pattern)), pattern);
  EXPECT_FALSE(known_pattern("\\w+"));
}

// Random strings over an alphabet chosen to hit every alternative of the expressions, bad bytes included.
TEST(WordScanner, CutsAsTheRegexEngineDoes) {
  const std::vector<std::string> alphabet = {" ",          " ",          "\n",
                                             "\r",         "\t",         "'",
                                             "s",          "T",          "re",
                                             "VE",         "ll",         "d",
                                             "m",          "a",          "Z",
                                             "\u00E9",     "\u4F60",     "\u597D",
                                             "\u3002",     "1",          "23",
                                             "\u0663",     "\u00B2",     "\u2167",
                                             ".",          "!",          "-",
                                             "_",          "\u00A0",     "\u3000",
                                             "\u0085",     "\u2028",     "\u200B",
                                             "\u0301",     "\u017F",     "\u212A",
                                             "\U0001F600", "\U00020000", std::string(1, '\0'),
                                             "\xFF",       "\xE4\xBD",   "\x80",
                                             "\u1680",     "\x0B",       "\x1C",
                                             "/",          "\u01C5",     "\u02B0",
                                             "\u0391",     "\u0903",     "\u20DD",
                                             "\u0640",     "\u0E31",     "\uFB01"};
  Dice dice(11);
  for (const WordPattern pattern : kPatterns) {
    const Regex regex{std::string(regex_of(pattern))};
    for (int round = 0; round < 4000; ++round) {
      std::string text;
      for (uint64_t n = dice.below(24); n > 0; --n) text += alphabet[dice.below(alphabet.size())];
      ASSERT_EQ(scan(pattern, text), match(pattern, regex, text)) << "round " << round;
    }
  }
}

// Every character between letters, digits and spaces.
TEST(WordScanner, ClassesAgreeWithTheRegexEngine) {
  for (const WordPattern pattern : kPatterns) {
    const Regex regex{std::string(regex_of(pattern))};
    for (uint32_t first = 1; first < 0x30000; first += 64) {
      std::string text;
      for (uint32_t c = first; c < first + 64; ++c) {
        if (c >= 0xD800 && c < 0xE000) continue;
        text += "a1 ";
        append_utf8(text, c);
        text += "b ";
        append_utf8(text, c);
      }
      ASSERT_EQ(scan(pattern, text), match(pattern, regex, text)) << "at " << first;
    }
  }
}

TEST(WordScanner, LongRunsAreCheap) {
  for (const WordPattern pattern : kPatterns)
    for (const char* const unit : {"a", " ", "\n", "1", "!", " \n", "\u4F60", "\xFF"}) {
      std::string text;
      while (text.size() < (1 << 18)) text += unit;
      size_t total = 0;
      for (const std::string& word : scan(pattern, text)) total += word.size();
      EXPECT_EQ(total, text.size());
    }
}

TEST(Regex, EmptyMatchesAndErrors) {
  std::vector<std::pair<size_t, size_t>> found;
  Regex("b*").for_each_match("abc", [&](size_t begin, size_t end) { found.emplace_back(begin, end); });
  EXPECT_EQ(found, (std::vector<std::pair<size_t, size_t>>{{0, 0}, {1, 2}, {3, 3}}));
  EXPECT_THROW(Regex("(a"), std::exception);
  EXPECT_THROW(Regex(std::string(20000, 'a')), std::exception);
  const Regex evil("(x+x+)+y");
  EXPECT_THROW(evil.for_each_match(std::string(64, 'x'), [](size_t, size_t) {}), std::exception);
}

}  // namespace
}  // namespace athanor::tests::word_scanner_test
