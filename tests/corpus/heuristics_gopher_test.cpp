#include "corpus/heuristics_probe.h"

#include <fmt/core.h>

namespace athanor::tests::heuristics_gopher_test {
namespace {

using heuristics_probe::expect_cases;
using heuristics_probe::probe;
using heuristics_probe::times;
using namespace std::string_literals;

// `all` lines, of which the first `some` are one and the others another text.
std::string lines(size_t some, const std::string& one, size_t all, const std::string& other) {
  return times(one + "\n", some) + times(other + "\n", all - some);
}

TEST(GopherQuality, WordsThatAreNotPunctuation) {
  expect_cases("gopher", {{"gopher.words", times("word ", 49), 49, false},
                          {"gopher.words", times("word ", 50), 50, true},
                          {"gopher.words", times("word ", 51), 51, true},
                          {"gopher.words", times("word, ", 49) + "...", 49, false},
                          {"gopher.words", times("word ", 99'999), 99'999, true},
                          {"gopher.words", times("word ", 100'000), 100'000, true},
                          {"gopher.words", times("word ", 100'001), 100'001, false}});
}

TEST(GopherQuality, WordsArePiecesWithoutTheMarksAroundThem) {
  const auto words = [](const std::string& text) { return probe("gopher", text).value("gopher.words"); };
  EXPECT_EQ(words("\"Well-known,\" he said... (don't!)"), 4);
  EXPECT_EQ(words("3.14 is-it?!"), 2);
  EXPECT_EQ(words("-- * ... \u2026 \u3002"), 0);
  EXPECT_EQ(words("a\u00a0b\u3000c\u2028d\x1f"
                  "e"),
            5);                   // all of them spaces
  EXPECT_EQ(words("\uff11"), 1);  // a digit, though datatrove has it among its marks
  // Marks count in the denominators: « " » « Hi » « , » « " » « ... » are five words, « ... » is one of them.
  EXPECT_EQ(probe("gopher", "\"Hi,\" ...").value("gopher.ellipses_per_word"), 1.0 / 5);
  EXPECT_EQ(probe("gopher", "?!?! a").value("gopher.words_with_letter"),
            1.0 / 5);  // four runs of one mark each
}

TEST(GopherQuality, MeanWordLengthInCharacters) {
  expect_cases("gopher", {{"gopher.mean_word_length", times("abc ", 9) + "ab", 2.9, false},
                          {"gopher.mean_word_length", times("abc, ", 10), 3, true},
                          {"gopher.mean_word_length", times("abc ", 9) + "abcd", 3.1, true},
                          {"gopher.mean_word_length", times("abcdefghij ", 9) + "abcdefghi", 9.9, true},
                          {"gopher.mean_word_length", times("abcdefghij ", 10), 10, true},
                          {"gopher.mean_word_length", times("abcdefghij ", 9) + "abcdefghijk", 10.1, false},
                          {"gopher.mean_word_length", "\u4e2d\u6587\u5b57 n\u00e9e", 3, true}});
}

TEST(GopherQuality, SymbolsPerWord) {
  expect_cases("gopher",
               {{"gopher.hashes_per_word", "# " + times("a ", 10), 1.0 / 11, true},
                {"gopher.hashes_per_word", "# " + times("a ", 9), 0.1, true},
                {"gopher.hashes_per_word", "# " + times("a ", 8), 1.0 / 9, false},
                {"gopher.hashes_per_word", "## a", 1, false},
                {"gopher.ellipses_per_word", "... " + times("a ", 10), 1.0 / 11, true},
                {"gopher.ellipses_per_word", "\u2026 " + times("a ", 9), 0.1, true},
                {"gopher.ellipses_per_word", "... " + times("a ", 8), 1.0 / 9, false},
                {"gopher.ellipses_per_word", "a...... " + times("b ", 18), 0.1, true}});  // two of them
}

TEST(GopherQuality, LinesWithBulletsAndEllipses) {
  expect_cases("gopher", {{"gopher.bullet_lines", lines(8, "- a", 10, "a"), 0.8, true},
                          {"gopher.bullet_lines", lines(9, "  \u2022 a", 10, "a"), 0.9, true},
                          {"gopher.bullet_lines", lines(10, "-a", 11, "a"), 10.0 / 11, false},
                          {"gopher.bullet_lines", lines(10, "* a", 10, "a"), 0, true},
                          {"gopher.ellipsis_lines", lines(2, "a...", 10, "a"), 0.2, true},
                          {"gopher.ellipsis_lines", lines(3, "a\u2026 ", 10, "a"), 0.3, true},
                          {"gopher.ellipsis_lines", lines(4, "a... \t", 10, "a"), 0.4, false}});
}

TEST(GopherQuality, LinesAlsoEndAtOtherBreaks) {
  EXPECT_EQ(probe("gopher",
                  "-a\r\n-b\rc\vd\fe\x1c"
                  "f\xc2\x85g\u2028h\u2029")
                .value("gopher.bullet_lines"),
            0.25);
  EXPECT_EQ(probe("gopher", "-a\n\n").value("gopher.bullet_lines"), 0.5);
}

TEST(GopherQuality, WordsWithALetter) {
  expect_cases("gopher", {{"gopher.words_with_letter", times("a ", 7) + times("1 ", 3), 0.7, false},
                          {"gopher.words_with_letter", times("a1 ", 8) + times("1 ", 2), 0.8, true},
                          {"gopher.words_with_letter", times("\u4e2d ", 9) + "%", 0.9, true}});
}

TEST(GopherQuality, StopWords) {
  expect_cases("gopher", {{"gopher.stop_words", "cats sat and and And The", 1, false},
                          {"gopher.stop_words", "the cats and dogs", 2, true},
                          {"gopher.stop_words", "the, cats and (that) dog", 3, true},
                          {"gopher.stop_words", "the be to of and that have with", 8, true},
                          {"gopher.stop_words", "theme bet tool off", 0, false}});
}

TEST(GopherRepetition, ParagraphsAndLines) {
  const std::string ten = "aaaaaaaaaa";
  const auto paragraphs = [](size_t repeated) {
    std::string text = "\n\n a";
    for (size_t i = 0; i < 9 - repeated; ++i) text += "\n\n\nb" + std::to_string(i);
    return text + times("\n\na", repeated) + "\n\n";
  };
  expect_cases(
      "gopher",
      {{"gopher.duplicate_paragraphs", paragraphs(2), 0.2, true},
       {"gopher.duplicate_paragraphs", paragraphs(3), 0.3, true},
       {"gopher.duplicate_paragraphs", paragraphs(4), 0.4, false},
       // 10 + 2 + 10 + 2 + n characters, 10 of them repeated
       {"gopher.duplicate_paragraph_chars", ten + "\n\n" + ten + "\n\n" + std::string(27, 'b'), 10.0 / 51,
        true},
       {"gopher.duplicate_paragraph_chars", ten + "\n\n" + ten + "\n\n" + std::string(26, 'b'), 0.2, true},
       {"gopher.duplicate_paragraph_chars", ten + "\n\n" + ten + "\n\n" + std::string(25, 'b'), 10.0 / 49,
        false},
       {"gopher.duplicate_lines", "a\nb\nc\nd\ne\nf\n\ng\na\nb\nh", 0.2, true},
       {"gopher.duplicate_lines", "a\nb\nc\nd\ne\nf\n\ng\na\nb\nc", 0.3, true},
       {"gopher.duplicate_lines", "a\nb\nc\nd\ne\nf\n\na\na\nb\nc", 0.4, false},
       {"gopher.duplicate_lines", "\na\n", 1.0 / 3, false},  // an empty line at each end
       {"gopher.duplicate_line_chars", ten + "\n" + ten + "\n" + std::string(29, 'b'), 10.0 / 51, true},
       {"gopher.duplicate_line_chars", ten + "\n" + ten + "\n" + std::string(28, 'b'), 0.2, true},
       {"gopher.duplicate_line_chars", ten + "\n" + ten + "\n" + std::string(27, 'b'), 10.0 / 49, false},
       // of Chinese, characters count: 2 of 2 + 1 + 2 + 1 + 4
       {"gopher.duplicate_line_chars", "\u4e2d\u6587\n\u4e2d\u6587\n\u4e00\u4e8c\u4e09\u56db", 0.2, true}});
}

TEST(GopherRepetition, TheMostFrequentGram) {
  struct Gram {
    const char* rule;
    std::string words;
    double most;
    size_t length;  // of the text for which twice the gram is exactly the limit
  };
  for (const Gram& gram : std::vector<Gram>{{"gopher.top_2_gram", "ab cd", 0.20, 50},
                                            {"gopher.top_3_gram", "ab cd efg", 0.18, 100},
                                            {"gopher.top_4_gram", "a b c de", 0.16, 100}}) {
    const std::string head = gram.words + " " + gram.words + " ";
    const auto text = [&](size_t length) { return head + std::string(length - head.size(), 'z'); };
    const auto twice = static_cast<double>(2 * gram.words.size());
    const auto length = static_cast<double>(gram.length);
    expect_cases("gopher", {{gram.rule, text(gram.length + 1), twice / (length + 1), true},
                            {gram.rule, text(gram.length), gram.most, true},
                            {gram.rule, text(gram.length - 1), twice / (length - 1), false}});
  }
  // All come once: the first counts, though others are longer. Two come twice: the first of them.
  EXPECT_EQ(probe("gopher", "a b cccc dddd").value("gopher.top_2_gram"), 3.0 / 13);
  EXPECT_EQ(probe("gopher", "x y a bb z a bb x y").value("gopher.top_2_gram"), 6.0 / 19);
  EXPECT_EQ(probe("gopher", "abc").value("gopher.top_2_gram"), 0);
}

TEST(GopherRepetition, RepeatedGrams) {
  const std::vector<std::pair<std::string, double>> grams = {
      {"aaa bbb ccc ddd eee", 0.15}, {"aaa bb cc dd ee fff", 0.14}, {"aa bb cc dd ee ff g", 0.13},
      {"aa bb cc dd e f g h", 0.12}, {"aa bb c d e f g h i", 0.11}, {"a b c d e f g h i j", 0.10}};
  for (size_t i = 0; i < grams.size(); ++i) {
    const auto& [words, most] = grams[i];
    const std::string rule = "gopher.duplicate_" + std::to_string(i + 5) + "_grams";
    const double chars = 15 - static_cast<double>(i);
    const std::string head = fmt::format("{0} {0} ", words);
    const auto text = [&](size_t length) { return head + std::string(length - head.size(), 'z'); };
    expect_cases("gopher", {{rule.c_str(), text(101), chars / 101, true},
                            {rule.c_str(), text(100), most, true},
                            {rule.c_str(), text(99), chars / 99, false}});
  }
}

TEST(GopherRepetition, RepeatedGramsAreComparedWithoutTheirSpacesAndReadFromTheLeft) {
  // "ab c d e f" and "a bc d e f" are one text without spaces: 6 of 21 characters.
  EXPECT_EQ(probe("gopher", "ab c d e f a bc d e f").value("gopher.duplicate_5_grams"), 6.0 / 21);
  // Eleven times one word: the window at 1 repeats that at 0, then that at 6.
  EXPECT_EQ(probe("gopher", "a a a a a a a a a a a").value("gopher.duplicate_5_grams"), 10.0 / 21);
}

}  // namespace
}  // namespace athanor::tests::heuristics_gopher_test
