// The characters that heuristic rules tell apart: spaces, punctuation, marks that end a sentence, letters.
//
//   if (kind_of(c) & (kPunctuation | kSpace)) { ... }
//
// Which characters end a sentence and which are punctuation are those of datatrove (utils/text.py), fixed here, so that
// a newer Unicode changes no decision; U+FF11, a full-width digit one in its list of punctuation, is left out. A space
// is White_Space and U+001C to U+001F, a letter is \p{L}. Thread rule: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::heuristics {

enum CharKind : uint8_t {
  kSpace = 1,
  kPunctuation = 2,  // holds all marks of kTerminal
  kTerminal = 4,     // . ! ? and their like in other scripts
  kLetter = 8,
  kWide = 16,  // not ASCII
};

// Of a code point >= 0x80; kWide alone: it has no other kind, as kInvalidByte.
uint8_t wide_kind_of(uint32_t code_point);

extern const std::array<uint8_t, 128> kAsciiKinds;

inline uint8_t kind_of(uint32_t code_point) {
  return code_point < 128 ? kAsciiKinds[code_point] : wide_kind_of(code_point);
}

bool is_decimal_digit(uint32_t code_point);  // Nd
bool is_alphabetic(uint32_t code_point);     // Alphabetic: letters, letter numbers, vowel signs

// Bytes that begin a character: in valid UTF-8 the number of characters.
uint32_t count_chars(std::string_view text);

// The start of the character that ends before byte `end` > 0.
inline size_t start_of_char_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

std::string_view strip(std::string_view text);  // without the spaces at both ends
bool is_blank(std::string_view text);           // nothing but spaces

// The kind of the last character; 0 of an empty text.
uint8_t last_kind(std::string_view text);

// How often `what` comes in `text`, none overlapping another.
uint32_t count_of(std::string_view text, std::string_view what);

}  // namespace athanor::corpus::heuristics
