// Properties of characters by Unicode 16.0, and the categories that Unicode 8.0 gave them.
//
//   unicode::category(0x4E00);   // Category::other_letter
//
// A code point above U+10FFFF, kInvalidByte among them, is unassigned. The first call fills a table of 1.1 MB.
// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "athanor/text/unicode.h"

namespace athanor::text::unicode {

enum class Category : uint8_t {  // the order of scripts/unicode_tables.mjs
  unassigned,
  uppercase_letter,
  lowercase_letter,
  titlecase_letter,
  modifier_letter,
  other_letter,
  nonspacing_mark,
  spacing_mark,
  enclosing_mark,
  decimal_number,
  letter_number,
  other_number,
  connector_punctuation,
  dash_punctuation,
  open_punctuation,
  close_punctuation,
  initial_punctuation,
  final_punctuation,
  other_punctuation,
  math_symbol,
  currency_symbol,
  modifier_symbol,
  other_symbol,
  space_separator,
  line_separator,
  paragraph_separator,
  control,
  format,
  surrogate,
  private_use,
};

Category category(uint32_t code_point);
Category category_in_8(uint32_t code_point);
bool is_alphabetic(uint32_t code_point);
bool is_han(uint32_t code_point);  // Script=Han
bool is_white_space(uint32_t code_point);
bool is_graphic(
    uint32_t code_point);  // it shows something: no control, space, surrogate or unassigned code point
uint32_t lowercase(uint32_t code_point);
CharClass class_of(uint32_t code_point);

inline bool is_letter(Category c) {
  return c >= Category::uppercase_letter && c <= Category::other_letter;
}
inline bool is_mark(Category c) {
  return c >= Category::nonspacing_mark && c <= Category::enclosing_mark;
}
inline bool is_number(Category c) {
  return c >= Category::decimal_number && c <= Category::other_number;
}
inline bool is_punctuation(Category c) {
  return c >= Category::connector_punctuation && c <= Category::other_punctuation;
}

// The value of a code point in a table of stretches (tables.h), which begins with code point 0.
uint32_t value_in(const uint32_t* stretches, size_t size, uint32_t code_point);

}  // namespace athanor::text::unicode
