#include <array>

#include "athanor/corpus/heuristics/family.h"
#include "athanor/corpus/heuristics/grams.h"

namespace athanor::corpus::heuristics {
namespace {

// "Repeated": equal to one that stands before it. All characters are divided by all characters of the text.
constexpr auto kGopherRepetition = std::to_array<Measure>({
    {"gopher.duplicate_paragraphs", "repeated paragraphs / paragraphs", kNoLeast, 0.30},
    {"gopher.duplicate_paragraph_chars", "characters of repeated paragraphs / characters", kNoLeast, 0.20},
    {"gopher.duplicate_lines",
     "repeated lines / lines, lines being split at runs of newlines: an empty one at each end that is a "
     "newline",
     kNoLeast, 0.30},
    {"gopher.duplicate_line_chars", "characters of repeated lines / characters", kNoLeast, 0.20},
    {"gopher.top_2_gram",
     "characters of the most frequent 2-gram of words, with a space between two, times its occurrences / "
     "characters; the first one if all come once",
     kNoLeast, 0.20},
    {"gopher.top_3_gram", "as top_2_gram, for 3 words", kNoLeast, 0.18},
    {"gopher.top_4_gram", "as top_2_gram, for 4 words", kNoLeast, 0.16},
    {"gopher.duplicate_5_grams",
     "characters, without spaces, of 5-grams of words that came before / characters; reading goes on behind "
     "a "
     "repeated one",
     kNoLeast, 0.15},
    {"gopher.duplicate_6_grams", "as duplicate_5_grams, for 6 words", kNoLeast, 0.14},
    {"gopher.duplicate_7_grams", "as duplicate_5_grams, for 7 words", kNoLeast, 0.13},
    {"gopher.duplicate_8_grams", "as duplicate_5_grams, for 8 words", kNoLeast, 0.12},
    {"gopher.duplicate_9_grams", "as duplicate_5_grams, for 9 words", kNoLeast, 0.11},
    {"gopher.duplicate_10_grams", "as duplicate_5_grams, for 10 words", kNoLeast, 0.10},
});

// The text split at runs of newlines.
std::vector<Span> gopher_lines(TextView& view) {
  const std::string_view text = view.text();
  std::vector<Span> lines;
  lines.reserve(view.lines().size());
  if (text.empty() || text.front() == '\n') lines.emplace_back();
  for (const Span& line : view.lines())
    if (line.size > 0) lines.push_back(line);
  if (text.ends_with('\n')) lines.emplace_back();
  return lines;
}

uint64_t gopher_top_chars(const Grams& grams, const std::vector<Word>& words) {
  const Grams::Top top = grams.top();
  if (top.count == 0) return 0;
  const auto n = static_cast<uint64_t>(grams.n());
  uint64_t chars = n - 1;
  for (size_t i = 0; i < n; ++i) chars += words[top.position + i].chars;
  return chars * top.count;
}

void measure_gopher_repetition(Document& /*document*/, TextView& view, std::span<double> values) {
  const auto chars = static_cast<double>(view.chars());
  const Repeats paragraphs = duplicates_of(view.text(), view.paragraphs());
  values[0] = ratio(paragraphs.spans, static_cast<double>(view.paragraphs().size()));
  values[1] = ratio(static_cast<double>(paragraphs.chars), chars);
  const std::vector<Span> lines = gopher_lines(view);
  const Repeats repeats = duplicates_of(view.text(), lines);
  values[2] = ratio(repeats.spans, static_cast<double>(lines.size()));
  values[3] = ratio(static_cast<double>(repeats.chars), chars);

  const std::vector<Word>& words = view.words();
  Grams grams(word_ids(view.text(), words));
  for (size_t n = 2; n <= 4; ++n) {
    grams.next();
    values[n + 2] = ratio(static_cast<double>(gopher_top_chars(grams, words)), chars);
  }
  JoinedWords joined(view.text(), words, 5);
  for (int n = 5; n <= 10; ++n)
    values[static_cast<size_t>(n) + 2] = ratio(static_cast<double>(joined.repeated_chars(n)), chars);
}

}  // namespace

Family gopher_repetition() {
  return {kGopherRepetition, measure_gopher_repetition};
}

}  // namespace athanor::corpus::heuristics
