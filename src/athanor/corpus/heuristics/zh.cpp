#include <algorithm>
#include <array>
#include <bit>

#include "athanor/corpus/heuristics/char_kinds.h"
#include "athanor/corpus/heuristics/family.h"
#include "athanor/corpus/heuristics/grams.h"
#include "athanor/corpus/heuristics/phrases.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::heuristics {
namespace {

// Chinese writes no space between words, so that characters stand in their place. A Chinese word has about 1.7
// characters, and what Gopher and FineWeb say in words is said here in that many characters: their numbers are
// multiplied or divided by 1.7 and rounded. Shares of lines and of repeated text need no change. The others:
//   ideographs    Prose has 0.75 to 0.9 and texts on computers, with Latin names, 0.5 to 0.7. Below 0.4 the text is in
//                 another language (Japanese has about 0.4) or a table.
//   punctuation   Prose has 0.1 to 0.17. Nearly none: lists of key words, or text that has lost its marks.
//                 More than 0.3: ornaments, emoticons, tables drawn with dashes.
//   garbled       A few lost characters come in good texts; one of two hundred is a wrong encoding.
//   common chars  As Gopher's stop words: text without two of these is names, numbers or shuffled words.
//   line ends     FineWeb's mark of 0.12 holds for Chinese marks as well.
enum ZhValue : size_t {
  kZhChars,
  kZhIdeographs,
  kZhPunctuation,
  kZhDigits,
  kZhGarbled,
  kZhHashes,
  kZhEllipses,
  kZhCommonChars,
  kZhBulletLines,
  kZhEllipsisLines,
  kZhTerminalLines,
  kZhShortLines,
  kZhNewlines,
  kZhDuplicateLines,
  kZhDuplicateLineChars,
  kZhTop3,
  kZhTop5,
  kZhTop7,
  kZhRepeat9,
  kZhRepeat12,
  kZhRepeat17,
  kZhValues
};

constexpr uint32_t kZhShortLine = 10;  // characters without spaces: a menu's entry, seldom a sentence

constexpr std::array<Measure, kZhValues> kZh = {{
    {"zh.chars", "characters that are not spaces", 85, 170'000},
    {"zh.ideographs", "ideographs / characters that are not spaces", 0.4},
    {"zh.punctuation", "punctuation of any script / characters that are not spaces", 0.02, 0.3},
    {"zh.digits", "decimal digits / characters that are not spaces", kNoLeast, 0.2},
    {"zh.garbled", "U+FFFD, private use and control characters / characters that are not spaces", kNoLeast,
     0.005},
    {"zh.hashes", "occurrences of # / characters that are not spaces", kNoLeast, 0.06},
    {"zh.ellipses",
     "runs of two or more U+2026 or of three or more . or U+3002 / characters that are not spaces", kNoLeast,
     0.06},
    {"zh.common_chars", "how many of: U+7684 U+662F U+5728 U+4E86 U+548C U+6709 U+4E0D U+6211 come in it", 2},
    {"zh.bullet_lines", "filled lines that begin with - * or a bullet, after spaces / filled lines", kNoLeast,
     0.9},
    {"zh.ellipsis_lines", "filled lines that end with an ellipsis, before spaces / filled lines", kNoLeast,
     0.3},
    {"zh.terminal_lines",
     "filled lines that end, before spaces and closing quotes and brackets, with a terminal mark or U+2026 / "
     "filled lines",
     0.12},
    {"zh.short_lines", "filled lines of at most 10 characters that are not spaces / filled lines", kNoLeast,
     0.67},
    {"zh.newlines", "newlines / characters that are not spaces", kNoLeast, 0.18},
    {"zh.duplicate_lines", "filled lines that came before / filled lines", kNoLeast, 0.3},
    {"zh.duplicate_line_chars", "characters of filled lines that came before / characters of filled lines",
     kNoLeast, 0.2},
    {"zh.top_3_gram",
     "3 times the occurrences of the most frequent run of 3 characters, spaces left out / characters that "
     "are not "
     "spaces",
     kNoLeast, 0.20},
    {"zh.top_5_gram", "as top_3_gram, for 5 characters", kNoLeast, 0.18},
    {"zh.top_7_gram", "as top_3_gram, for 7 characters", kNoLeast, 0.16},
    {"zh.duplicate_9_grams",
     "characters of runs of 9 that came before / characters that are not spaces; reading goes on behind a "
     "repeated one",
     kNoLeast, 0.15},
    {"zh.duplicate_12_grams", "as duplicate_9_grams, for 12 characters", kNoLeast, 0.13},
    {"zh.duplicate_17_grams", "as duplicate_9_grams, for 17 characters", kNoLeast, 0.10},
}};

constexpr auto kZhCommon =
    std::to_array<uint32_t>({0x7684, 0x662F, 0x5728, 0x4E86, 0x548C, 0x6709, 0x4E0D, 0x6211});
constexpr auto kZhBullets =
    std::to_array<std::string_view>({"-", "*", "\u2022", "\u00B7", "\u30FB", "\u25CB", "\u25CF", "\u25A0",
                                     "\u25A1", "\u25C6", "\u25C7", "\u2605", "\u2606", "\u203B"});
constexpr auto kZhEllipsisMarks = std::to_array<std::string_view>({"...", "\u2026", "\u3002\u3002\u3002"});
constexpr auto kZhClosing = std::to_array<std::string_view>(
    {"\"", "'", ")", "]", "\u2019", "\u201D", "\u300B", "\u300D", "\u300F", "\u3011", "\uFF09"});

bool is_garbled(uint32_t c) {
  return c == 0xFFFD || c == text::kInvalidByte || (c >= 0xE000 && c <= 0xF8FF) || c >= 0xF0000 ||
         (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || (c >= 0x7F && c < 0xA0);
}

uint32_t zh_common_bit(uint32_t c) {
  const auto at = std::find(kZhCommon.begin(), kZhCommon.end(), c);
  return at == kZhCommon.end() ? 0 : 1u << (at - kZhCommon.begin());
}

// Runs of one mark that are long enough to be an ellipsis.
class EllipsisRuns {
 public:
  void see(uint32_t c) {
    run_ = c == last_ ? run_ + 1 : 1;
    last_ = c;
    runs_ += (c == 0x2026 && run_ == 2) || ((c == '.' || c == 0x3002) && run_ == 3);
  }
  uint64_t runs() const { return runs_; }

 private:
  uint64_t runs_ = 0;
  uint32_t last_ = 0, run_ = 0;
};

// Fills in what is counted by character; the result: the characters that are not spaces.
std::vector<uint32_t> measure_zh_chars(std::string_view text, std::span<double> values) {
  std::vector<uint32_t> solid;
  solid.reserve(text.size() / 3 + 1);
  uint64_t ideographs = 0, marks = 0, digits = 0, garbled = 0, hashes = 0;
  uint32_t common = 0;
  EllipsisRuns ellipses;
  for (size_t at = 0; at < text.size();) {
    const text::CodePoint c = text::decode_utf8(text, at);
    at += c.size;
    ellipses.see(c.value);
    if (kind_of(c.value) & kSpace) continue;
    solid.push_back(c.value);
    const bool ideograph = text::is_chinese(c.value);
    ideographs += ideograph;
    if (ideograph)
      common |= zh_common_bit(c.value);
    else if (is_garbled(c.value))
      ++garbled;
    else if (text::is_punctuation(c.value))
      ++marks;
    digits += is_decimal_digit(c.value);
    hashes += c.value == '#';
  }
  const auto chars = static_cast<double>(solid.size());
  values[kZhChars] = chars;
  values[kZhIdeographs] = ratio(static_cast<double>(ideographs), chars);
  values[kZhPunctuation] = ratio(static_cast<double>(marks), chars);
  values[kZhDigits] = ratio(static_cast<double>(digits), chars);
  values[kZhGarbled] = ratio(static_cast<double>(garbled), chars);
  values[kZhHashes] = ratio(static_cast<double>(hashes), chars);
  values[kZhEllipses] = ratio(static_cast<double>(ellipses.runs()), chars);
  values[kZhCommonChars] = static_cast<double>(std::popcount(common));
  return solid;
}

uint32_t solid_chars(std::string_view line) {
  uint32_t chars = 0;
  for (size_t at = 0; at < line.size();) {
    const text::CodePoint c = text::decode_utf8(line, at);
    chars += !(kind_of(c.value) & kSpace);
    at += c.size;
  }
  return chars;
}

bool ends_zh_sentence(std::string_view line) {
  while (ends_with_any(line, kZhClosing)) line = line.substr(0, start_of_char_before(line, line.size()));
  return (last_kind(line) & kTerminal) || line.ends_with("\u2026");
}

void measure_zh_lines(TextView& view, std::span<double> values) {
  uint64_t bullets = 0, ellipses = 0, terminal = 0, brief = 0, chars = 0;
  for (const Span& line : view.filled_lines()) {
    const std::string_view inner = strip(view.of(line));
    bullets += starts_with_any(inner, kZhBullets);
    ellipses += ends_with_any(inner, kZhEllipsisMarks);
    terminal += ends_zh_sentence(inner);
    brief += solid_chars(inner) <= kZhShortLine;
    chars += line.chars;
  }
  const auto lines = static_cast<double>(view.filled_lines().size());
  const Repeats repeats = duplicates_of(view.text(), view.filled_lines());
  values[kZhBulletLines] = ratio(static_cast<double>(bullets), lines);
  values[kZhEllipsisLines] = ratio(static_cast<double>(ellipses), lines);
  values[kZhTerminalLines] = ratio(static_cast<double>(terminal), lines);
  values[kZhShortLines] = ratio(static_cast<double>(brief), lines);
  values[kZhNewlines] = ratio(static_cast<double>(view.lines().size() - 1), values[kZhChars]);
  values[kZhDuplicateLines] = ratio(repeats.spans, lines);
  values[kZhDuplicateLineChars] = ratio(static_cast<double>(repeats.chars), static_cast<double>(chars));
}

void measure_zh(Document& /*document*/, TextView& view, std::span<double> values) {
  Numbered solid{.ids = measure_zh_chars(view.text(), values)};
  measure_zh_lines(view, values);
  KeyTable table;
  table.reset(solid.ids.size());
  for (uint32_t& id : solid.ids) id = table.number_of(id);
  solid.distinct = table.size();
  const double chars = values[kZhChars];
  Grams grams(std::move(solid));
  const auto top = [&](int n) {
    while (grams.n() < n) grams.next();
    return ratio(static_cast<double>(n) * grams.top().count, chars);
  };
  const auto repeated = [&](int n) {
    while (grams.n() < n) grams.next();
    uint64_t runs = 0;
    for_each_repeat(grams, [&](size_t) { ++runs; });
    return ratio(static_cast<double>(n) * static_cast<double>(runs), chars);
  };
  values[kZhTop3] = top(3);
  values[kZhTop5] = top(5);
  values[kZhTop7] = top(7);
  values[kZhRepeat9] = repeated(9);
  values[kZhRepeat12] = repeated(12);
  values[kZhRepeat17] = repeated(17);
}

}  // namespace

Family zh() {
  return {kZh, measure_zh};
}

}  // namespace athanor::corpus::heuristics
