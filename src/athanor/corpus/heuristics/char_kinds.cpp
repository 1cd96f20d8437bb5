#include "athanor/corpus/heuristics/char_kinds.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "athanor/text/unicode.h"

namespace athanor::corpus::heuristics {
namespace {

struct CharRange {
  uint32_t first, last;
};

// Both above ASCII, ascending.
constexpr auto kTerminalRanges = std::to_array<CharRange>({
    {0x589, 0x589},     {0x61D, 0x61F},     {0x6D4, 0x6D4},     {0x700, 0x702},     {0x7F9, 0x7F9},
    {0x837, 0x837},     {0x839, 0x839},     {0x83D, 0x83E},     {0x964, 0x965},     {0x104A, 0x104B},
    {0x1362, 0x1362},   {0x1367, 0x1368},   {0x166E, 0x166E},   {0x1735, 0x1736},   {0x17D4, 0x17D6},
    {0x17D9, 0x17DA},   {0x1803, 0x1803},   {0x1809, 0x1809},   {0x1944, 0x1945},   {0x1AA8, 0x1AAB},
    {0x1B5A, 0x1B5B},   {0x1B5E, 0x1B5F},   {0x1B7D, 0x1B7E},   {0x1C3B, 0x1C3C},   {0x1C7E, 0x1C7F},
    {0x203C, 0x203D},   {0x2047, 0x2049},   {0x2E2E, 0x2E2E},   {0x2E3C, 0x2E3C},   {0x2E53, 0x2E54},
    {0x3002, 0x3002},   {0xA4FF, 0xA4FF},   {0xA60E, 0xA60F},   {0xA6F3, 0xA6F3},   {0xA6F7, 0xA6F7},
    {0xA876, 0xA877},   {0xA8CE, 0xA8CF},   {0xA92F, 0xA92F},   {0xA9C8, 0xA9C9},   {0xAA5D, 0xAA5F},
    {0xAAF0, 0xAAF1},   {0xABEB, 0xABEB},   {0xFE52, 0xFE52},   {0xFE56, 0xFE57},   {0xFF01, 0xFF01},
    {0xFF0E, 0xFF0E},   {0xFF1F, 0xFF1F},   {0xFF61, 0xFF61},   {0x10A56, 0x10A57}, {0x10F55, 0x10F59},
    {0x10F86, 0x10F89}, {0x11047, 0x11048}, {0x110BE, 0x110C1}, {0x11141, 0x11143}, {0x111C5, 0x111C6},
    {0x111CD, 0x111CD}, {0x111DE, 0x111DF}, {0x11238, 0x11239}, {0x1123B, 0x1123C}, {0x112A9, 0x112A9},
    {0x1144B, 0x1144C}, {0x115C2, 0x115C3}, {0x115C9, 0x115D7}, {0x11641, 0x11642}, {0x1173C, 0x1173E},
    {0x11944, 0x11944}, {0x11946, 0x11946}, {0x11A42, 0x11A43}, {0x11A9B, 0x11A9C}, {0x11C41, 0x11C42},
    {0x11EF7, 0x11EF8}, {0x11F43, 0x11F44}, {0x16A6E, 0x16A6F}, {0x16AF5, 0x16AF5}, {0x16B37, 0x16B38},
    {0x16B44, 0x16B44}, {0x16E98, 0x16E98}, {0x1BC9F, 0x1BC9F}, {0x1DA88, 0x1DA88},
});

constexpr auto kOtherPunctuationRanges = std::to_array<CharRange>({
    {0x80, 0x9F},     {0xAB, 0xAB},     {0xB4, 0xB4},     {0xBB, 0xBB},     {0x2013, 0x2014},
    {0x2019, 0x2019}, {0x201C, 0x201E}, {0x2026, 0x2026}, {0x2236, 0x2236}, {0x2501, 0x2501},
    {0x25BA, 0x25BA}, {0x3001, 0x3001}, {0x3008, 0x300D}, {0x3010, 0x3011}, {0xFF05, 0xFF05},
    {0xFF08, 0xFF09}, {0xFF0C, 0xFF0C}, {0xFF1A, 0xFF1B}, {0xFF5E, 0xFF5E},
});

bool is_in(std::span<const CharRange> ranges, uint32_t c) {
  const auto next =
      std::upper_bound(ranges.begin(), ranges.end(), c, [](uint32_t a, CharRange b) { return a < b.first; });
  return next != ranges.begin() && c <= std::prev(next)->last;
}

constexpr std::array<uint8_t, 128> ascii_kinds() {
  std::array<uint8_t, 128> kinds{};
  for (uint32_t c = 0; c < 128; ++c) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool lower = c >= 'a' && c <= 'z';
    const bool digit = c >= '0' && c <= '9';
    const bool space = c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
    uint32_t kind = 0;
    if (space)
      kind |= kSpace;
    else if (upper || lower)
      kind |= kLetter;
    else if (!digit)
      kind |= kPunctuation;  // control characters too
    if (c == '.' || c == '!' || c == '?') kind |= kTerminal;
    kinds[c] = static_cast<uint8_t>(kind);
  }
  return kinds;
}

uint8_t kind_at(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  return byte < 128 ? kAsciiKinds[byte] : wide_kind_of(text::decode_utf8(text, at).value);
}

}  // namespace

constinit const std::array<uint8_t, 128> kAsciiKinds = ascii_kinds();

uint8_t wide_kind_of(uint32_t c) {
  if (c >= 0x4E00 && c <= 0x9FFF) return kWide | kLetter;  // ideographs: nearly all of a Chinese text
  if (c == text::kInvalidByte) return kWide;
  if (text::is_space(c)) return kWide | kSpace;
  if (is_in(kTerminalRanges, c)) return kWide | kPunctuation | kTerminal;
  if (c < 0xA0 || is_in(kOtherPunctuationRanges, c)) return kWide | kPunctuation;
  return text::is_letter(c) ? kWide | kLetter : kWide;
}

bool is_decimal_digit(uint32_t c) {
  return c < 128 ? c >= '0' && c <= '9' : c <= 0x10FFFF && u_isdigit(static_cast<UChar32>(c));
}

bool is_alphabetic(uint32_t c) {
  return c < 128 ? (kAsciiKinds[c] & kLetter) != 0
                 : c <= 0x10FFFF && u_isUAlphabetic(static_cast<UChar32>(c));
}

uint32_t count_chars(std::string_view text) {
  // Eight bytes at once: a byte goes on with a character if its highest bit is set and the next one is not.
  constexpr uint64_t kLowest = 0x0101010101010101;
  uint32_t tails = 0;
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, text.data() + at, 8);
    tails += static_cast<uint32_t>(std::popcount((bytes >> 7) & ~(bytes >> 6) & kLowest));
  }
  for (; at < text.size(); ++at) tails += (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80;
  return static_cast<uint32_t>(text.size()) - tails;
}

std::string_view strip(std::string_view text) {
  size_t begin = 0;
  while (begin < text.size() && kind_at(text, begin) & kSpace) begin += text::decode_utf8(text, begin).size;
  size_t end = text.size();
  while (end > begin) {
    const size_t at = start_of_char_before(text, end);
    if (at < begin || !(kind_at(text, at) & kSpace)) break;
    end = at;
  }
  return text.substr(begin, end - begin);
}

bool is_blank(std::string_view text) {
  for (size_t at = 0; at < text.size(); at += text::decode_utf8(text, at).size)
    if (!(kind_at(text, at) & kSpace)) return false;
  return true;
}

uint8_t last_kind(std::string_view text) {
  return text.empty() ? uint8_t{0} : kind_at(text, start_of_char_before(text, text.size()));
}

uint32_t count_of(std::string_view text, std::string_view what) {
  uint32_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size()))
    ++count;
  return count;
}

}  // namespace athanor::corpus::heuristics
