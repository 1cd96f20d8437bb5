#include "athanor/corpus/heuristics/urls.h"

#include <fmt/core.h>

#include <cmath>

#include "corpus/heuristics_probe.h"

namespace athanor::tests::heuristics_curator_test {
namespace {

using heuristics_probe::expect_cases;
using heuristics_probe::probe;
using heuristics_probe::times;

// `all` texts, of which the first `some` are `one`, joined.
std::string mixed(size_t some, const std::string& one, size_t all, const std::string& other) {
  return times(one, some) + times(other, all - some);
}

TEST(Curator, Characters) {
  expect_cases("curator", {{"curator.symbols", mixed(24, " ", 100, "a"), 0.24, true},
                           {"curator.symbols", mixed(25, "\u00e9", 100, "!"), 0.25, true},
                           {"curator.symbols", mixed(26, ";", 100, "\n"), 0.26, false},
                           {"curator.digits", mixed(14, "1", 100, "a"), 0.14, true},
                           {"curator.digits", mixed(15, "\u0663", 100, "a"), 0.15, true},
                           {"curator.digits", mixed(16, "1", 100, "\u00bd"), 0.16, false},
                           {"curator.white_space", mixed(24, "\t", 100, "a"), 0.24, true},
                           {"curator.white_space", mixed(25, "\r", 100, "\u3000"), 0.25, true},
                           {"curator.white_space", mixed(26, "\n", 100, "a"), 0.26, false},
                           {"curator.parentheses", mixed(9, "(", 100, "a"), 0.09, true},
                           {"curator.parentheses", mixed(10, "\u27e9", 100, "a"), 0.1, true},
                           {"curator.parentheses", mixed(11, "}", 100, "<"), 0.11, false},
                           {"curator.url_chars", "http://a.b " + std::string(40, 'x'), 10.0 / 51, true},
                           {"curator.url_chars", "http://a.b " + std::string(39, 'x'), 0.2, true},
                           {"curator.url_chars", "http://a.b " + std::string(38, 'x'), 10.0 / 49, false}});
}

TEST(Curator, Addresses) {
  const std::vector<std::pair<const char*, uint64_t>> texts = {{"See https://example.org/a%20b, there", 26},
                                                               {"http:// x https://", 0},
                                                               {"http://a%2", 8},
                                                               {"httpx://a http:/a HTTP://a", 0},
                                                               {"http://a<b", 8},
                                                               {"http://a http://b", 16},
                                                               {"httphttp://a", 8},
                                                               {"http", 0},
                                                               {"http://http://a", 15}};
  for (const auto& [text, bytes] : texts) EXPECT_EQ(url_bytes(text), bytes) << text;
}

TEST(Curator, Words) {
  expect_cases("curator",
               {{"curator.words", times("a, ", 49), 49, false},
                {"curator.words", times("- ", 50), 50, true},
                {"curator.words", times("a ", 51), 51, true},
                {"curator.words", times("a ", 99'999), 99'999, true},
                {"curator.words", times("a ", 100'000), 100'000, true},
                {"curator.words", times("a ", 100'001), 100'001, false},
                {"curator.mean_word_length", times("abc ", 9) + "ab", 2.9, false},
                {"curator.mean_word_length", times("ab. ", 10), 3, true},
                {"curator.mean_word_length", times("abc ", 9) + "abcd", 3.1, true},
                {"curator.mean_word_length", times("abcdefghi. ", 10), 10, true},
                {"curator.mean_word_length", times("abcdefghi. ", 9) + "abcdefghij.", 10.1, false},
                {"curator.longest_word", "a " + std::string(999, 'b'), 999, true},
                {"curator.longest_word", "a " + std::string(1000, 'b'), 1000, true},
                {"curator.longest_word", "a " + std::string(1001, 'b'), 1001, false},
                {"curator.words_with_letter", mixed(7, "a1 ", 10, "1 "), 0.7, false},
                {"curator.words_with_letter", mixed(8, "\u4e2d ", 10, "1 "), 0.8, true},
                {"curator.words_with_letter", mixed(9, "\u2167 ", 10, "1 "), 0.9, true},  // a letter number
                {"curator.common_words", "the cat", 1, false},
                {"curator.common_words", "the the cat", 2, true},
                {"curator.common_words", "the and, of The with", 3, true},
                {"curator.symbol_words", "## a [...] b c d e f g h i", 1.0 / 11, true},
                {"curator.symbol_words", "# a b c d e f g h i", 0.1, true},
                {"curator.symbol_words", "-\u00bb a b c d e f g h", 1.0 / 9, false}});
}

TEST(Curator, Lines) {
  expect_cases("curator", {{"curator.unique_lines", "a\na\na\na\na\nb\nc\nd\ne\nf\n", 0.6, false},
                           {"curator.unique_lines", "a\na\n \na\na\nb\nc\nd\ne\nf\ng", 0.7, true},
                           {"curator.unique_lines", "a\na\na\nb\nc\nd\ne\nf\ng\nh", 0.8, true},
                           {"curator.unique_line_chars", "aaa\naaa\nbbbbbbbb", 11.0 / 14, false},
                           {"curator.unique_line_chars", "aaa\naaa\n\nbbbbbbbbb", 0.8, true},
                           {"curator.unique_line_chars", "aaa\naaa\nbbbbbbbbbb", 13.0 / 16, true},
                           {"curator.lines_no_end_mark", mixed(84, "a\n", 100, "a. \n"), 0.84, true},
                           {"curator.lines_no_end_mark", mixed(85, "a;\n", 100, "a'\n"), 0.85, true},
                           {"curator.lines_no_end_mark", mixed(86, "a\u3002\n", 100, "a\"\n"), 0.86, false},
                           {"curator.ellipsis_lines", mixed(2, "a...\n", 10, "a\n"), 0.2, true},
                           {"curator.ellipsis_lines", mixed(3, "a Read More \n", 10, "a\n"), 0.3, true},
                           {"curator.ellipsis_lines", mixed(4, "[\u2026]\n", 10, "a\n"), 0.4, false},
                           {"curator.bullet_lines", mixed(8, "\u2022 a\n", 10, "- a\n"), 0.8, true},
                           {"curator.bullet_lines", mixed(9, " \u25cf a\n", 10, "a\n"), 0.9, true},
                           {"curator.bullet_lines", mixed(10, "\u29bf a\n", 11, "a\n"), 10.0 / 11, false}});
}

TEST(Curator, Paragraphs) {
  expect_cases(
      "curator",
      {{"curator.unique_paragraphs", "a\n\na\n\na\n\na\n\na\n\nb\n\nc\n\nd\n\ne\n\nf", 0.6, false},
       {"curator.unique_paragraphs", "a\n\na\n\na\n\na\n\nb\n\nc\n\nd\n\ne\n\nf\n\ng", 0.7, true},
       {"curator.unique_paragraphs", "a\n\na\n\na\n\nb\n\nc\n\nd\n\ne\n\nf\n\ng\n\nh", 0.8, true},
       {"curator.unique_paragraphs", "a\n\n\n\n\n\n", 0.5, false},  // "a" and three empty ones
       {"curator.unique_paragraph_chars", "aaa\n\naaa\n\nbbbbbbbb", 11.0 / 14, false},
       {"curator.unique_paragraph_chars", "aaa\n\naaa\n\nbbbbbbbbb", 0.8, true},
       {"curator.unique_paragraph_chars", "aaa\n\naaa\n\nbbbbbbbbbb", 13.0 / 16, true},
       {"curator.boilerplate", "Our Privacy Policy\n\nb\n\nc", 1.0 / 3, true},
       {"curator.boilerplate", "Privacy Overview\n\nit uses\ncookies\n\nuse cookies\n\nd\n\ne", 0.4, true},
       {"curator.boilerplate", "terms of use\n\ncookie policy\n\nc", 2.0 / 3, false},
       {"curator.boilerplate", "Lorem Ipsum\n\nb\n\nc", 1, false}});
}

TEST(Curator, TopGrams) {
  struct Gram {
    const char* rule;
    std::string words;
    double most;
    size_t length;
  };
  for (const Gram& gram : std::vector<Gram>{{"curator.top_2_gram", "ab cd", 0.20, 50},
                                            {"curator.top_3_gram", "ab cd efg", 0.18, 100},
                                            {"curator.top_4_gram", "a b c de", 0.16, 100}}) {
    const std::string head = gram.words + " " + gram.words + " ";
    const auto text = [&](size_t length) { return head + std::string(length - head.size(), 'z'); };
    const auto twice = static_cast<double>(2 * gram.words.size());
    const auto length = static_cast<double>(gram.length);
    expect_cases("curator", {{gram.rule, text(gram.length + 1), twice / (length + 1), true},
                             {gram.rule, text(gram.length), gram.most, true},
                             {gram.rule, text(gram.length - 1), twice / (length - 1), false}});
  }
  // It is deleted as text: in the middle of words as well, and not over a newline.
  EXPECT_EQ(probe("curator", "a b x a b y xa bx a\nb").value("curator.top_2_gram"), 9.0 / 21);
}

TEST(Curator, RepeatedGrams) {
  const std::vector<double> limits = {0.15, 0.14, 0.13};
  // The repeated gram of n words counts with n - 1 blanks: of n = 5: 11 characters and 4 blanks.
  const std::vector<std::string> words = {"aaa bb cc dd ee", "aaaa b c d e f", "a b c d e f g"};
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string rule = "curator.duplicate_" + std::to_string(i + 5) + "_grams";
    const std::string head = words[i] + " " + words[i] + " ";
    const auto chars = static_cast<double>(words[i].size());
    ASSERT_EQ(chars, 15 - static_cast<double>(i));
    const auto text = [&](size_t length) { return head + std::string(length - head.size(), 'z'); };
    expect_cases("curator", {{rule.c_str(), text(101), chars / 101, true},
                             {rule.c_str(), text(100), limits[i], true},
                             {rule.c_str(), text(99), chars / 99, false}});
  }
  // For 8 and more words the limit is below what one gram with its blanks can be of 100 characters.
  for (const auto& [n, most, length] :
       std::vector<std::tuple<size_t, double, size_t>>{{8, 0.12, 150}, {9, 0.11, 200}, {10, 0.10, 200}}) {
    const std::string rule = "curator.duplicate_" + std::to_string(n) + "_grams";
    const auto size = static_cast<size_t>(std::lround(most * static_cast<double>(length)));  // of the gram
    std::string gram = std::string(size - 2 * (n - 1), 'q');
    for (size_t i = 1; i < n; ++i) gram += std::string(" ") + static_cast<char>('a' + i);
    const std::string head = fmt::format("{0} {0} ", gram);
    const auto text = [&](size_t all) { return head + std::string(all - head.size(), 'z'); };
    const auto chars = static_cast<double>(size);
    expect_cases("curator",
                 {{rule.c_str(), text(length + 1), chars / static_cast<double>(length + 1), true},
                  {rule.c_str(), text(length), most, true},
                  {rule.c_str(), text(length - 1), chars / static_cast<double>(length - 1), false}});
  }
  // Eleven times "a": six of the seven 5-grams repeat; the first of them counts 5 letters and 4 blanks, each further
  // one a letter and a blank.
  EXPECT_EQ(probe("curator", "a a a a a a a a a a a").value("curator.duplicate_5_grams"), 19.0 / 21);
}

}  // namespace
}  // namespace athanor::tests::heuristics_curator_test
