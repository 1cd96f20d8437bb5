#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "athanor/corpus/heuristics/char_kinds.h"
#include "athanor/corpus/heuristics/family.h"
#include "athanor/corpus/heuristics/grams.h"
#include "athanor/corpus/heuristics/phrases.h"
#include "athanor/corpus/heuristics/urls.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::heuristics {
namespace {

// In the order of NeMo Curator's pipeline. Where it gives an empty text the ratio 1 the score is NaN here: such a text
// has fewer than 50 words.
enum CuratorValue : size_t {
  kCuratorSymbols,
  kCuratorSymbolWords,
  kCuratorDigits,
  kCuratorUrls,
  kCuratorSpace,
  kCuratorParentheses,
  kCuratorBoilerplate,
  kCuratorUniqueLines,
  kCuratorUniqueParagraphs,
  kCuratorUniqueLineChars,
  kCuratorUniqueParagraphChars,
  kCuratorWords,
  kCuratorOpenLines,
  kCuratorLetterWords,
  kCuratorCommonWords,
  kCuratorMeanWord,
  kCuratorLongestWord,
  kCuratorEllipsisLines,
  kCuratorTop2,
  kCuratorRepeat5 = kCuratorTop2 + 3,
  kCuratorBullets = kCuratorRepeat5 + 6,
  kCuratorValues
};

constexpr std::array<Measure, kCuratorValues> kCurator = {{
    {"curator.symbols", "characters other than a-z A-Z 0-9 newline ? ! , . (spaces count) / characters",
     kNoLeast, 0.25},
    {"curator.symbol_words",
     "pieces that are an ellipsis, or with more runs of # than half of their characters / pieces", kNoLeast,
     0.1},
    {"curator.digits", "decimal digits of any script / characters", kNoLeast, 0.15},
    {"curator.url_chars", "characters of http and https addresses / characters", kNoLeast, 0.2},
    {"curator.white_space", "blanks, tabs, newlines, carriage returns and backspaces / characters", kNoLeast,
     0.25},
    {"curator.parentheses", "characters ( ) [ ] { } U+27E8 U+27E9 / characters", kNoLeast, 0.1},
    {"curator.boilerplate",
     "parts, as the text is split at each pair of newlines, with a phrase of a notice on cookies or privacy "
     "/ parts; 1 "
     "with lorem ipsum",
     kNoLeast, 0.4},
    {"curator.unique_lines", "different filled lines / filled lines", 0.7},
    {"curator.unique_paragraphs", "different parts / parts, as the text is split at each pair of newlines",
     0.7},
    {"curator.unique_line_chars", "characters of different filled lines / characters of filled lines", 0.8},
    {"curator.unique_paragraph_chars", "characters of different parts / characters of parts", 0.8},
    {"curator.words", "pieces", 50, 100'000},
    {"curator.lines_no_end_mark",
     "filled lines that do not end in . ? ! \" or ', before spaces / filled lines", kNoLeast, 0.85},
    {"curator.words_with_letter", "pieces with an alphabetic character / pieces", 0.8},
    {"curator.common_words", "pieces that are one of: the be to of and that have with (in lower case)", 2},
    {"curator.mean_word_length", "characters of pieces / pieces", 3, 10},
    {"curator.longest_word", "characters of the longest piece", kNoLeast, 1000},
    {"curator.ellipsis_lines",
     "filled lines that end in an ellipsis, -\u00BB or \"read more\" / filled lines", kNoLeast, 0.3},
    {"curator.top_2_gram",
     "characters that go if the most frequent 2-gram of pieces, with a blank between two, is deleted from "
     "the text "
     "/ characters; the first one if several come equally often",
     kNoLeast, 0.20},
    {"curator.top_3_gram", "as top_2_gram, for 3 pieces", kNoLeast, 0.18},
    {"curator.top_4_gram", "as top_2_gram, for 4 pieces", kNoLeast, 0.16},
    {"curator.duplicate_5_grams",
     "characters of pieces in 5-grams that came before, each piece once, and a blank behind each but the "
     "last of a "
     "run / characters",
     kNoLeast, 0.15},
    {"curator.duplicate_6_grams", "as duplicate_5_grams, for 6 pieces", kNoLeast, 0.14},
    {"curator.duplicate_7_grams", "as duplicate_5_grams, for 7 pieces", kNoLeast, 0.13},
    {"curator.duplicate_8_grams", "as duplicate_5_grams, for 8 pieces", kNoLeast, 0.12},
    {"curator.duplicate_9_grams", "as duplicate_5_grams, for 9 pieces", kNoLeast, 0.11},
    {"curator.duplicate_10_grams", "as duplicate_5_grams, for 10 pieces", kNoLeast, 0.10},
    {"curator.bullet_lines", "filled lines that begin with a bullet of twelve, after spaces / filled lines",
     kNoLeast, 0.9},
}};

constexpr auto kCuratorCommon =
    std::to_array<std::string_view>({"the", "be", "to", "of", "and", "that", "have", "with"});
constexpr auto kCuratorBulletMarks =
    std::to_array<std::string_view>({"\u2022", "\u2023", "\u2043", "\u204C", "\u204D", "\u2219", "\u25CB",
                                     "\u25CF", "\u25D8", "\u25E6", "\u29BE", "\u29BF"});
constexpr auto kCuratorEllipses = std::to_array<std::string_view>(
    {"...", "[...]", "\u2026", "(...)", "[\u2026]", "-\u00BB", "read more..", "read more"});
constexpr auto kCuratorEndMarks = std::to_array<std::string_view>({".", "?", "!", "\"", "'"});
// Beside kPolicyPhrases. The published list has whole notices; those that no shorter phrase finds are looked for by
// their first words.
constexpr auto kCuratorNotices = std::to_array<std::string_view>(
    {"privacy overview", "privacy & cookies policy", "privacy and cookies policy",
     "necessary cookies are absolutely essential for the website to function properly",
     "any cookies that may not be particularly necessary for the website to function",
     "if you continue to browse this site without changing your cookie settings"});

void measure_curator_chars(TextView& view, std::span<double> values) {
  const std::string_view text = view.text();
  uint64_t plain = 0, digits = 0, space = 0, parentheses = 0;
  for (size_t at = 0; at < text.size();) {
    const text::CodePoint c = text::decode_utf8(text, at);
    at += c.size;
    const bool digit = is_decimal_digit(c.value);
    digits += digit;
    if (c.value >= 128) {
      parentheses += c.value == 0x27E8 || c.value == 0x27E9;
      continue;
    }
    const auto byte = static_cast<char>(c.value);
    plain += digit || (kAsciiKinds[c.value] & kLetter) || contains("\n?!,.", {&byte, 1});
    space += contains("\t\n\r\b ", {&byte, 1});
    parentheses += contains("(){}[]", {&byte, 1});
  }
  const auto chars = static_cast<double>(view.chars());
  values[kCuratorSymbols] = ratio(chars - static_cast<double>(plain), chars);
  values[kCuratorDigits] = ratio(static_cast<double>(digits), chars);
  values[kCuratorUrls] = ratio(static_cast<double>(url_bytes(text)), chars);
  values[kCuratorSpace] = ratio(static_cast<double>(space), chars);
  values[kCuratorParentheses] = ratio(static_cast<double>(parentheses), chars);
}

void measure_curator_lines(TextView& view, std::span<double> values) {
  uint64_t chars = 0, open = 0, ellipses = 0, bullets = 0;
  for (const Span& line : view.filled_lines()) {
    const std::string_view inner = strip(view.of(line));
    chars += line.chars;
    open += !ends_with_any(inner, kCuratorEndMarks);
    const size_t tail = inner.size() - std::min<size_t>(inner.size(), 16);  // longer than any of the ellipses
    ellipses += ends_with_any(lower_ascii(inner.substr(tail)), kCuratorEllipses);
    bullets += starts_with_any(inner, kCuratorBulletMarks);
  }
  const auto lines = static_cast<double>(view.filled_lines().size());
  const Repeats repeats = duplicates_of(view.text(), view.filled_lines());
  values[kCuratorUniqueLines] = ratio(lines - repeats.spans, lines);
  values[kCuratorUniqueLineChars] =
      ratio(static_cast<double>(chars - repeats.chars), static_cast<double>(chars));
  values[kCuratorOpenLines] = ratio(static_cast<double>(open), lines);
  values[kCuratorEllipsisLines] = ratio(static_cast<double>(ellipses), lines);
  values[kCuratorBullets] = ratio(static_cast<double>(bullets), lines);
}

void measure_curator_paragraphs(TextView& view, std::span<double> values) {
  const std::string_view text = view.text();
  std::vector<Span> parts;
  uint64_t chars = 0, notices = 0;
  bool lorem_ipsum = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find("\n\n", begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    parts.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(part.size()), view.chars_of(part)});
    chars += parts.back().chars;
    const std::string lower = lower_ascii(part);
    lorem_ipsum = lorem_ipsum || contains(lower, "lorem ipsum");
    notices += contains_any(lower, kPolicyPhrases) || contains_any(lower, kCuratorNotices);
    begin = end + 2;
  }
  const Repeats repeats = duplicates_of(text, parts);
  const auto count = static_cast<double>(parts.size());
  values[kCuratorBoilerplate] = lorem_ipsum ? 1.0 : ratio(static_cast<double>(notices), count);
  values[kCuratorUniqueParagraphs] = ratio(count - repeats.spans, count);
  values[kCuratorUniqueParagraphChars] =
      ratio(static_cast<double>(chars - repeats.chars), static_cast<double>(chars));
}

bool has_alphabetic(std::string_view word) {
  for (size_t at = 0; at < word.size();) {
    const text::CodePoint c = text::decode_utf8(word, at);
    if (is_alphabetic(c.value)) return true;
    at += c.size;
  }
  return false;
}

bool is_symbol_word(std::string_view word, uint32_t chars) {
  uint32_t runs = 0;
  for (size_t i = 0; i < word.size(); ++i) runs += word[i] == '#' && (i == 0 || word[i - 1] != '#');
  return 2 * runs > chars ||
         std::find(kCuratorEllipses.begin(), kCuratorEllipses.end(), word) != kCuratorEllipses.end();
}

void measure_curator_words(TextView& view, std::span<double> values) {
  uint64_t chars = 0, symbols = 0, with_letter = 0, common = 0;
  uint32_t longest = 0;
  for (const Word& piece : view.pieces()) {
    const std::string_view word = view.of(piece);
    chars += piece.chars;
    longest = std::max(longest, piece.chars);
    symbols += is_symbol_word(word, piece.chars);
    with_letter += piece.has_letter || has_alphabetic(word);
    common += std::find(kCuratorCommon.begin(), kCuratorCommon.end(), word) != kCuratorCommon.end();
  }
  const auto words = static_cast<double>(view.pieces().size());
  values[kCuratorWords] = words;
  values[kCuratorSymbolWords] = ratio(static_cast<double>(symbols), words);
  values[kCuratorLetterWords] = ratio(static_cast<double>(with_letter), words);
  values[kCuratorCommonWords] = static_cast<double>(common);
  values[kCuratorMeanWord] = ratio(static_cast<double>(chars), words);
  values[kCuratorLongestWord] = words > 0 ? static_cast<double>(longest) : NAN;
}

double curator_top_chars(const TextView& view, const std::vector<Word>& words, const Grams& grams) {
  const Grams::Top top = grams.top();
  std::string gram;
  for (size_t i = 0; i < static_cast<size_t>(grams.n()); ++i) {
    if (i > 0) gram += ' ';
    gram += view.of(words[top.position + i]);
  }
  return static_cast<double>(count_of(view.text(), gram)) * view.chars_of(gram);
}

double curator_repeated_chars(const std::vector<Word>& words, const Grams& grams) {
  const auto n = static_cast<size_t>(grams.n());
  std::vector<bool> seen(grams.num_repeated());
  size_t counted = 0;  // words from here on that were counted with an earlier gram
  uint64_t chars = 0;
  for (size_t i = 0; i < grams.grams().size(); ++i) {
    const uint32_t gram = grams.grams()[i];
    if (gram != Grams::kOnce && seen[gram]) {
      for (size_t k = counted; k < n; ++k) chars += words[i + k].chars;
      chars += std::min(n - counted, n - 1);
      counted = n;
    }
    if (gram != Grams::kOnce) seen[gram] = true;
    if (counted > 0) --counted;
  }
  return static_cast<double>(chars);
}

void measure_curator(Document& /*document*/, TextView& view, std::span<double> values) {
  measure_curator_chars(view, values);
  measure_curator_lines(view, values);
  measure_curator_paragraphs(view, values);
  measure_curator_words(view, values);
  const std::vector<Word>& words = view.pieces();
  const auto chars = static_cast<double>(view.chars());
  Grams grams(word_ids(view.text(), words));
  for (size_t n = 2; n <= 10; ++n) {
    grams.next();
    if (n <= 4)
      values[kCuratorTop2 + n - 2] = words.size() < n ? NAN : curator_top_chars(view, words, grams) / chars;
    else
      values[kCuratorRepeat5 + n - 5] = words.size() < n ? NAN : curator_repeated_chars(words, grams) / chars;
  }
}

}  // namespace

Family curator() {
  return {kCurator, measure_curator};
}

}  // namespace athanor::corpus::heuristics
