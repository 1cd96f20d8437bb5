#include "corpus/heuristics_probe.h"

namespace athanor::tests::heuristics_fineweb_test {
namespace {

using heuristics_probe::expect_cases;
using heuristics_probe::probe;
using heuristics_probe::Probe;
using heuristics_probe::times;

std::string lines(size_t some, const std::string& one, size_t all, const std::string& other) {
  return times(one + "\n", some) + times(other + "\n", all - some);
}

TEST(Fineweb, ATextOfBlankLinesHasNone) {
  expect_cases("fineweb", {{"fineweb.filled_lines", " \n\t\n", 0, false},
                           {"fineweb.filled_lines", "a", 1, true},
                           {"fineweb.filled_lines", "a\n\nb\n", 2, true}});
}

TEST(Fineweb, LinesThatEndWithATerminalMark) {
  expect_cases("fineweb", {{"fineweb.terminal_lines", lines(2, "a.", 25, "a"), 0.08, false},
                           {"fineweb.terminal_lines", lines(3, "a!", 25, "a"), 0.12, true},
                           {"fineweb.terminal_lines", lines(4, "a?", 25, "a"), 0.16, true},
                           {"fineweb.terminal_lines", "a\u3002\nb\uff1f\nc\u061f\nd\u0964", 1, true},
                           // a space, a quote, a comma and a carriage return are none
                           {"fineweb.terminal_lines", "a. \nb.\"\nc,\nd.\r\n\u2026", 0, false}});
}

TEST(Fineweb, LinesOfAtMostThirtyCharacters) {
  const std::string at(30, 'a'), above(31, 'a');
  expect_cases("fineweb",
               {{"fineweb.short_lines", lines(66, at, 100, above), 0.66, true},
                {"fineweb.short_lines", lines(67, at, 100, above), 0.67, true},
                {"fineweb.short_lines", lines(68, at, 100, above), 0.68, false},
                {"fineweb.short_lines", times("\u4e2d", 30) + "\n" + times("\u4e2d", 31), 0.5, true}});
}

TEST(Fineweb, CharactersOfRepeatedLines) {
  expect_cases("fineweb",
               {{"fineweb.duplicate_line_chars", "a\na\n" + std::string(99, 'b'), 1.0 / 101, true},
                {"fineweb.duplicate_line_chars", "a\na\n\n" + std::string(98, 'b') + "\n", 0.01, true},
                {"fineweb.duplicate_line_chars", "a\na\n" + std::string(97, 'b'), 1.0 / 99, false},
                {"fineweb.duplicate_line_chars", "a\na \n", 0, true}});
}

TEST(Fineweb, NewlinesPerWord) {
  expect_cases("fineweb", {{"fineweb.newlines_per_word", times("a ", 11) + "\n\n\n", 3.0 / 11, true},
                           {"fineweb.newlines_per_word", times("a ", 10) + "\n\n\n", 0.3, true},
                           {"fineweb.newlines_per_word", times("a ", 9) + "\n\n\n", 3.0 / 9, false},
                           // marks are words
                           {"fineweb.newlines_per_word", times("a, ", 5) + "\n\n\n", 0.3, true}});
}

// Counted by hand. Filled lines: 9, of which 1, 3, 4, 6 and 8 end with a mark; 2, 5, 7 and 9 have at most 30 characters.
TEST(Fineweb, AnArticle) {
  const std::string text =
      "The harbour of Dunmore was rebuilt in 1824 after two hard winters.\n"  // 66 characters, 12 words + .
      "Share this page\n"                                                     // 15, 3
      "\n"
      "Alexander Nimmo, a Scottish engineer, drew the plans and the pier.\n"   // 66, 11 + 3
      "It cost more than he said: 93,000 pounds, not 20,000!\n"                // 53, 10 + 3
      "Related\n"                                                              // 7, 1
      "Mail packets for Waterford landed here until the river was dredged.\n"  // 67, 11 + 1
      "Share this page\n"                                                      // 15, 3
      "Was it worth it? The herring fleet, and the town, would say so.\n"      // 63, 13 + 4
      "Back to top";                                                           // 11, 3
  const Probe got = probe("fineweb", text);
  EXPECT_EQ(got.value("fineweb.filled_lines"), 9);
  EXPECT_EQ(got.value("fineweb.terminal_lines"), 5.0 / 9);
  EXPECT_EQ(got.value("fineweb.short_lines"), 4.0 / 9);
  EXPECT_EQ(got.value("fineweb.duplicate_line_chars"), 15.0 / 363);
  EXPECT_EQ(got.value("fineweb.newlines_per_word"), 9.0 / 79);
  EXPECT_EQ(first_broken(got.stage->rules(), got.values)->name, "fineweb.duplicate_line_chars");
}

TEST(Fineweb, ARecipeIsAList) {
  const std::string text =
      "Bread\n2 cups flour\n1 cup water\nSalt\nYeast\nMix it. Wait. Bake it for an hour.\n";
  const Probe got = probe("fineweb", text);
  EXPECT_EQ(got.value("fineweb.terminal_lines"), 1.0 / 6);
  EXPECT_EQ(got.value("fineweb.short_lines"), 5.0 / 6);
  EXPECT_EQ(got.value("fineweb.duplicate_line_chars"), 0);
  EXPECT_EQ(got.value("fineweb.newlines_per_word"), 6.0 / 20);
  EXPECT_EQ(first_broken(got.stage->rules(), got.values)->name, "fineweb.short_lines");
}

}  // namespace
}  // namespace athanor::tests::heuristics_fineweb_test
