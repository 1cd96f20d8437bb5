#include <array>
#include <bit>

#include "athanor/corpus/heuristics/char_kinds.h"
#include "athanor/corpus/heuristics/family.h"

namespace athanor::corpus::heuristics {
namespace {

constexpr auto kGopherQuality = std::to_array<Measure>({
    {"gopher.words", "words that are not punctuation", 50, 100'000},
    {"gopher.mean_word_length", "characters of words that are not punctuation / those words", 3, 10},
    {"gopher.hashes_per_word", "occurrences of # / words", kNoLeast, 0.1},
    {"gopher.ellipses_per_word", "occurrences of ... and U+2026 / words", kNoLeast, 0.1},
    {"gopher.bullet_lines", "broken lines that begin with U+2022 or -, after spaces / broken lines", kNoLeast,
     0.9},
    {"gopher.ellipsis_lines", "broken lines that end with ... or U+2026, before spaces / broken lines",
     kNoLeast, 0.3},
    {"gopher.words_with_letter", "words with a letter / words", 0.8},
    {"gopher.stop_words", "how many of: the be to of and that have with (in lower case) are words of it", 2},
});

// A word of two to four bytes as a number.
constexpr uint32_t gopher_word_code(std::string_view word) {
  uint32_t code = 0;
  for (const char c : word) code = code << 8 | static_cast<uint8_t>(c);
  return code;
}

uint32_t gopher_stop_word_bit(std::string_view word) {
  if (word.size() < 2 || word.size() > 4) return 0;
  switch (gopher_word_code(word)) {
    case gopher_word_code("the"):
      return 1;
    case gopher_word_code("be"):
      return 2;
    case gopher_word_code("to"):
      return 4;
    case gopher_word_code("of"):
      return 8;
    case gopher_word_code("and"):
      return 16;
    case gopher_word_code("that"):
      return 32;
    case gopher_word_code("have"):
      return 64;
    case gopher_word_code("with"):
      return 128;
    default:
      return 0;
  }
}

void measure_gopher_quality(Document& /*document*/, TextView& view, std::span<double> values) {
  uint64_t plain = 0, plain_chars = 0, with_letter = 0;
  uint32_t stop_words = 0;
  for (const Word& word : view.words()) {
    with_letter += word.has_letter;
    if (word.is_punctuation) continue;
    ++plain;
    plain_chars += word.chars;
    stop_words |= gopher_stop_word_bit(view.of(word));
  }
  uint64_t bullets = 0, ellipses = 0;
  for (const Span& line : view.broken_lines()) {
    const std::string_view inner = strip(view.of(line));
    bullets += inner.starts_with("\u2022") || inner.starts_with('-');
    ellipses += inner.ends_with("...") || inner.ends_with("\u2026");
  }
  const auto words = static_cast<double>(view.words().size());
  const auto lines = static_cast<double>(view.broken_lines().size());
  values[0] = static_cast<double>(plain);
  values[1] = ratio(static_cast<double>(plain_chars), static_cast<double>(plain));
  values[2] = ratio(count_of(view.text(), "#"), words);
  values[3] = ratio(count_of(view.text(), "...") + count_of(view.text(), "\u2026"), words);
  values[4] = ratio(static_cast<double>(bullets), lines);
  values[5] = ratio(static_cast<double>(ellipses), lines);
  values[6] = ratio(static_cast<double>(with_letter), words);
  values[7] = static_cast<double>(std::popcount(stop_words));
}

}  // namespace

Family gopher_quality() {
  return {kGopherQuality, measure_gopher_quality};
}

}  // namespace athanor::corpus::heuristics
