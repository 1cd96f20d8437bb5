#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "athanor/corpus/heuristics/char_kinds.h"
#include "athanor/corpus/heuristics/family.h"
#include "athanor/corpus/heuristics/for_each_piece.h"
#include "athanor/corpus/heuristics/phrases.h"
#include "athanor/corpus/heuristics/sentences.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::heuristics {
namespace {

constexpr uint32_t kC4LongWord = 1000;  // characters; a longer one is a long word
constexpr size_t kC4FewWords = 3;       // fewer are few

// In the order in which a line is looked at: a line that goes for one reason is not looked at for the next ones.
enum C4Value : size_t {
  kC4Lines,
  kC4LongWordLines,
  kC4Citations,
  kC4OpenLines,
  kC4FewWordLines,
  kC4LoremIpsum,
  kC4Javascript,
  kC4CurlyBracket,
  kC4Policy,
  kC4KeptLines,
  kC4Sentences,
  kC4ThirdLine,
  kC4Values
};

constexpr std::array<Measure, kC4Values> kC4 = {{
    {"c4.lines", "broken lines of the text as it came; each is stripped of spaces at both ends"},
    {"c4.lines_long_word", "lines dropped for a piece of more than 1000 characters"},
    {"c4.citations", "citations removed from the other lines: [], [12], [edit], [citation needed]"},
    {"c4.lines_no_end_mark", "lines dropped for not ending in . ? ! \" or ', or for ending in ..."},
    {"c4.lines_few_words", "lines dropped for fewer than 3 pieces, counted before citations go"},
    {"c4.lorem_ipsum", "lines with lorem ipsum, of those that come so far", kNoLeast, 0},
    {"c4.lines_javascript", "lines dropped for the word javascript"},
    {"c4.curly_bracket", "lines with {, of those that come so far", kNoLeast, 0},
    {"c4.lines_policy", "lines dropped for a phrase of a notice on cookies, privacy or terms of use"},
    {"c4.lines_kept", "lines kept"},
    {"c4.sentences", "sentences in the lines kept", 5},
    {"c4.third_longest_line",
     "characters of the third longest line kept, 0 if there is none; mC4 asks for 200, C4 does not"},
}};

// The bytes of a citation that begins at `at`, a "["; 0: there is none.
size_t citation_size(std::string_view line, size_t at) {
  const std::string_view rest = line.substr(at);
  for (const std::string_view word : {"[edit]", "[citation needed]"})
    if (rest.starts_with(word)) return word.size();
  size_t end = 1;
  while (end < rest.size()) {
    const text::CodePoint c = text::decode_utf8(rest, end);
    if (c.value == ']') return end + 1;
    if (!is_decimal_digit(c.value)) return 0;
    end += c.size;
  }
  return 0;
}

uint32_t remove_citations(std::string& line) {
  uint32_t removed = 0;
  size_t to = 0;
  for (size_t at = 0; at < line.size();) {
    const size_t size = line[at] == '[' ? citation_size(line, at) : 0;
    if (size > 0) {
      ++removed;
      at += size;
    } else {
      line[to++] = line[at++];
    }
  }
  line.resize(to);
  return removed;
}

bool has_end_mark(std::string_view line) {
  return !line.empty() && contains(".?!\"'", line.substr(line.size() - 1)) && !line.ends_with("...");
}

// Whether the line is kept; counts why not. May change it.
bool keep_c4_line(std::string& line, bool wants_end_mark, std::span<double> values) {
  size_t words = 0;
  uint32_t longest = 0;
  for_each_piece(line, [&](size_t begin, size_t end, uint8_t /*kinds*/) {
    ++words;
    longest = std::max(longest, count_chars(std::string_view(line).substr(begin, end - begin)));
  });
  const auto drop_for = [&](C4Value reason) {
    ++values[reason];
    return false;
  };
  if (longest > kC4LongWord) return drop_for(kC4LongWordLines);
  values[kC4Citations] += remove_citations(line);
  if (wants_end_mark && !has_end_mark(line)) return drop_for(kC4OpenLines);
  if (words < kC4FewWords) return drop_for(kC4FewWordLines);
  const std::string lower = lower_ascii(line);
  if (contains(lower, "lorem ipsum")) ++values[kC4LoremIpsum];
  if (contains(lower, "javascript")) return drop_for(kC4Javascript);
  if (contains(lower, "{")) ++values[kC4CurlyBracket];
  if (contains_any(lower, kPolicyPhrases)) return drop_for(kC4Policy);
  return true;
}

template <bool kWantsEndMark>
void measure_c4(Document& document, TextView& view, std::span<double> values) {
  std::fill(values.begin(), values.end(), 0.0);
  values[kC4Lines] = static_cast<double>(view.broken_lines().size());
  std::vector<uint32_t> lengths;
  std::string text, line;
  text.reserve(view.text().size());
  for (const Span& broken : view.broken_lines()) {
    line = strip(view.of(broken));
    if (!keep_c4_line(line, kWantsEndMark, values)) continue;
    values[kC4Sentences] += count_sentences(line);
    lengths.push_back(count_chars(line));
    if (lengths.size() > 1) text += '\n';
    text += line;
  }
  values[kC4KeptLines] = static_cast<double>(lengths.size());
  if (lengths.size() > 2) {
    std::nth_element(lengths.begin(), lengths.begin() + 2, lengths.end(), std::greater<>());
    values[kC4ThirdLine] = lengths[2];
  }
  document.text = strip(text);
}

}  // namespace

Family c4() {
  return {kC4, measure_c4<true>};
}

Family c4_any_line_end() {
  return {kC4, measure_c4<false>};
}

}  // namespace athanor::corpus::heuristics
