#include <array>

#include "athanor/corpus/heuristics/char_kinds.h"
#include "athanor/corpus/heuristics/family.h"
#include "athanor/corpus/heuristics/grams.h"

namespace athanor::corpus::heuristics {
namespace {

constexpr uint32_t kFinewebShortLine = 30;  // characters

constexpr auto kFineweb = std::to_array<Measure>({
    {"fineweb.filled_lines", "lines that are not blank", 1},
    {"fineweb.terminal_lines",
     "filled lines whose last character, a space counting, is a terminal mark / filled lines", 0.12},
    {"fineweb.short_lines", "filled lines of at most 30 characters / filled lines", kNoLeast, 0.67},
    {"fineweb.duplicate_line_chars",
     "characters of filled lines that came before / characters that are not a newline", kNoLeast, 0.01},
    {"fineweb.newlines_per_word", "newlines / words", kNoLeast, 0.3},
});

void measure_fineweb(Document& /*document*/, TextView& view, std::span<double> values) {
  uint64_t terminal = 0, brief = 0;
  const std::vector<Span>& lines = view.filled_lines();
  for (const Span& line : lines) {
    terminal += (last_kind(view.of(line)) & kTerminal) != 0;
    brief += line.chars <= kFinewebShortLine;
  }
  const auto num_lines = static_cast<double>(lines.size());
  const auto newlines = static_cast<double>(view.lines().size() - 1);
  const Repeats repeats = duplicates_of(view.text(), lines);
  values[0] = num_lines;
  values[1] = ratio(static_cast<double>(terminal), num_lines);
  values[2] = ratio(static_cast<double>(brief), num_lines);
  values[3] = lines.empty() ? NAN : ratio(static_cast<double>(repeats.chars), view.chars() - newlines);
  values[4] = ratio(newlines, static_cast<double>(view.words().size()));
}

}  // namespace

Family fineweb() {
  return {kFineweb, measure_fineweb};
}

}  // namespace athanor::corpus::heuristics
