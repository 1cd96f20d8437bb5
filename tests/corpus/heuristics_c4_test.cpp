#include "athanor/corpus/heuristics/sentences.h"
#include "corpus/heuristics_probe.h"

namespace athanor::tests::heuristics_c4_test {
namespace {

using heuristics_probe::expect_cases;
using heuristics_probe::probe;
using heuristics_probe::Probe;
using heuristics_probe::times;

// The text that is left of a line.
std::string kept(const std::string& line, const std::string& preset = "c4") {
  return probe(preset, line).text;
}

TEST(C4, WhatGoesIsCountedByReason) {
  const std::string long_word(1001, 'w'), not_too_long(1000, 'w');
  const Probe got = probe("c4",
                          "  The first line stays.  \n"
                          "This one has no end mark\n"
                          "Two words.\n"
                          "Please turn on JavaScript to read on.\n"
                          "We use cookies to follow you.\n"
                          "By reading you accept the Terms of Use of us.\r\n" +
                              long_word + " is a long word.\n" + not_too_long +
                              " is not too long.\n"
                              "\n"
                              "Water boils at 100 degrees.[1][citation needed] It was so[edit] in 1800[23]!\n"
                              "And so on and on...\n"
                              "\"The last line stays too.\"");
  EXPECT_EQ(got.text, "The first line stays.\n" + not_too_long +
                          " is not too long.\n"
                          "Water boils at 100 degrees. It was so in 1800!\n"
                          "\"The last line stays too.\"");
  EXPECT_EQ(got.value("c4.lines"), 12);
  EXPECT_EQ(got.value("c4.lines_long_word"), 1);
  EXPECT_EQ(got.value("c4.citations"), 4);
  EXPECT_EQ(got.value("c4.lines_no_end_mark"), 3);  // the blank one too
  EXPECT_EQ(got.value("c4.lines_few_words"), 1);
  EXPECT_EQ(got.value("c4.lines_javascript"), 1);
  EXPECT_EQ(got.value("c4.lines_policy"), 2);
  EXPECT_EQ(got.value("c4.lines_kept"), 4);
  EXPECT_EQ(got.value("c4.sentences"), 5);
  EXPECT_EQ(got.value("c4.lorem_ipsum"), 0);
  EXPECT_EQ(got.value("c4.curly_bracket"), 0);
  EXPECT_EQ(got.value("c4.third_longest_line"), 26);
  EXPECT_EQ(first_broken(got.stage->rules(), got.values), nullptr);
}

TEST(C4, EndMarks) {
  for (const char* line : {"so it is.", "so it is?", "so it is!", "so it is\"", "so it is'"})
    EXPECT_EQ(kept(line), line);
  for (const char* line :
       {"so it is", "so it is,", "so it is...", "so it is)", "so it is\u3002", "so it is\u201d"})
    EXPECT_EQ(kept(line), "") << line;
}

// The space before a citation stays, and a line that ends with it has no end mark any more: as published.
TEST(C4, CitationsGoAfterTheLineWasStripped) {
  EXPECT_EQ(kept("This is so.[]"), "This is so.");
  EXPECT_EQ(kept("This is so. [12]"), "");
  EXPECT_EQ(kept("This [note 1] is [1a] so [ 2 ] [Edit]."), "This [note 1] is [1a] so [ 2 ] [Edit].");
  EXPECT_EQ(kept("This is [[1]] so."), "This is [] so.");
  EXPECT_EQ(kept("This is [12 so."), "This is [12 so.");
  EXPECT_EQ(kept("so it is.\n[1] [2] this."), "so it is.\n  this.");  // three words before
}

TEST(C4, ReasonsAreLookedForInOrder) {
  // No end mark comes before the brace, javascript before the brace, the brace before the phrase.
  EXPECT_EQ(probe("c4", "int main() {").value("c4.curly_bracket"), 0);
  EXPECT_EQ(probe("c4", "javascript is here { and there.").value("c4.curly_bracket"), 0);
  const Probe both = probe("c4", "a brace { in a privacy policy.");
  EXPECT_EQ(both.value("c4.curly_bracket"), 1);
  EXPECT_EQ(both.value("c4.lines_policy"), 1);
  EXPECT_EQ(probe("c4", "lorem ipsum javascript once.").value("c4.lorem_ipsum"), 1);
}

TEST(C4, DocumentsWithLoremIpsumOrABraceGo) {
  expect_cases("c4", {{"c4.lorem_ipsum", "A text of us.", 0, true},
                      {"c4.lorem_ipsum", "Here Lorem Ipsum dolor sit.", 1, false},
                      {"c4.curly_bracket", "This } is fine.", 0, true},
                      {"c4.curly_bracket", "This { is not.\nAnd { is not.", 2, false}});
}

TEST(C4, FiveSentences) {
  expect_cases("c4", {{"c4.sentences", times("One is here. ", 4), 4, false},
                      {"c4.sentences", times("One is here. ", 5), 5, true},
                      {"c4.sentences", times("One is here.\n", 6), 6, true}});
}

TEST(C4, AnyLineEnd) {
  const Probe got =
      probe("c4-any-line-end", "A line without a mark\nTwo words\n\nuse cookies or not\nIt ends...");
  EXPECT_EQ(got.text, "A line without a mark");
  EXPECT_EQ(got.value("c4.lines_no_end_mark"), 0);
  EXPECT_EQ(got.value("c4.lines_few_words"), 3);
  EXPECT_EQ(got.value("c4.lines_policy"), 1);
}

TEST(C4, ThirdLongestLine) {
  EXPECT_EQ(probe("c4", "this is one.\nthis is \u4e2d two.").value("c4.third_longest_line"), 0);
  EXPECT_EQ(probe("c4", "a b c.\nd e f gg.\nh i \u00e9.\nj k l m n.").value("c4.third_longest_line"), 6);
}

TEST(Sentences, EndAtMarksBeforeASpaceOrTheEnd) {
  const std::vector<std::pair<const char*, uint32_t>> lines = {
      {"", 0},
      {"  ", 0},
      {"no mark", 1},
      {"One.", 1},
      {"One. Two", 2},
      {"It is 3.14. Is it? \"Yes.\"", 3},
      {"What?! No...", 2},
      {"He said \"Go.\" She went (slowly.) Then", 3},
      {"e.g., this", 1},
      {"www.example.org is one.", 1},
      {"\u4e2d\u6587\u3002\u4e2d\u6587\uff01\u201d\u4e2d", 3},
      {". . .", 3},
  };
  for (const auto& [line, count] : lines) EXPECT_EQ(count_sentences(line), count) << line;
}

}  // namespace
}  // namespace athanor::tests::heuristics_c4_test
