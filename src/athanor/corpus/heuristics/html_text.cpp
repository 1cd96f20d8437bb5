#include "athanor/corpus/heuristics/html_text.h"

#include <algorithm>
#include <string>

#include "athanor/corpus/heuristics/char_kinds.h"
#include "athanor/corpus/heuristics/phrases.h"

namespace athanor::corpus::heuristics {
namespace {

constexpr size_t kLongestReference =
    33;  // "&CounterClockwiseContourIntegral;" is the longest that HTML names

size_t end_after(std::string_view html, std::string_view what, size_t from) {
  const size_t at = html.find(what, from);
  return at == std::string_view::npos ? html.size() : at + what.size();
}

// Bytes of the character reference at `at`, an "&"; 0: none.
size_t reference_size(std::string_view html, size_t at) {
  for (size_t end = at + 1; end < std::min(html.size(), at + kLongestReference); ++end) {
    if (html[end] == ';') return end > at + 1 ? end + 1 - at : 0;
    const uint8_t kind = kind_of(static_cast<uint8_t>(html[end]) & 0x7F);
    if (html[end] != '#' && kind & (kPunctuation | kSpace)) return 0;
  }
  return 0;
}

// Where the markup ends that begins at `at`, a "<"; `at`: it is no markup. lower: html in lower case.
size_t markup_end(std::string_view lower, size_t at) {
  const std::string_view rest = lower.substr(at, 8);
  if (rest.starts_with("<!--")) return end_after(lower, "-->", at + 4);
  for (const std::string_view name : {"script", "style"})
    if (rest.substr(1).starts_with(name)) {
      const size_t after = at + 1 + name.size();
      if (after < lower.size() && kind_of(static_cast<uint8_t>(lower[after]) & 0x7F) & kLetter) continue;
      const size_t close = lower.find(std::string("</") + std::string(name), after);
      return close == std::string_view::npos ? lower.size() : end_after(lower, ">", close);
    }
  if (rest.size() < 2) return at;
  const char next = rest[1];
  return (next >= 'a' && next <= 'z') || next == '/' || next == '!' || next == '?' ? end_after(lower, ">", at)
                                                                                   : at;
}

}  // namespace

uint64_t visible_chars(std::string_view html) {
  const std::string lower = lower_ascii(html);
  uint64_t chars = 0;
  for (size_t at = 0; at < html.size();) {
    if (html[at] == '<') {
      const size_t end = markup_end(lower, at);
      if (end > at) {
        at = end;
        continue;
      }
    }
    const size_t reference = html[at] == '&' ? reference_size(html, at) : 0;
    chars += (static_cast<uint8_t>(html[at]) & 0xC0) != 0x80;
    at += std::max<size_t>(reference, 1);
  }
  return chars;
}

}  // namespace athanor::corpus::heuristics
