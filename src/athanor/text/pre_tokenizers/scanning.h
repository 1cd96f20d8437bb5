// What the scanners of words are made of (word_scanner.h, part_scanner.h): characters by class and the ends of runs.
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

#include "athanor/text/unicode.h"
#include "athanor/text/unicode/ascii.h"

namespace athanor::text::pre_tokenizers {

struct Char {
  CharClass kind;
  uint32_t size;
};

inline Char char_at(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 128) return {unicode::ascii_class(byte), 1};
  const CodePoint c = decode_utf8(text, at);
  return {char_class(c.value), c.size};
}

// The end of the run of one class that starts at `at`.
inline size_t skip(std::string_view text, size_t at, CharClass kind) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (c.kind != kind) break;
    at += c.size;
  }
  return at;
}

inline bool is_line_end(char c) {
  return c == '\r' || c == '\n';
}

// \s+(?!\S)|\s+ : the run, but its last space is left to the word that follows it.
inline size_t space_end(std::string_view text, size_t at, bool up_to_line_end) {
  size_t end = at, last = at, after_line_end = at;
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if (c.kind != CharClass::space) break;
    last = end;
    end += c.size;
    if (is_line_end(text[last])) after_line_end = end;
  }
  if (up_to_line_end && after_line_end > at) return after_line_end;
  return end == text.size() || last == at ? end : last;
}

// The end of a run of numbers of at most `most` that starts at `at`.
inline size_t digits_end(std::string_view text, size_t at, int most) {
  for (int digits = 0; digits < most && at < text.size(); ++digits) {
    const Char c = char_at(text, at);
    if (c.kind != CharClass::number) break;
    at += c.size;
  }
  return at;
}

}  // namespace athanor::text::pre_tokenizers
