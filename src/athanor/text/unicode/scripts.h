// The script that a character belongs to by Unicode 9.0, which Hugging Face's UnicodeScripts keeps to: published ids depend
// on it.
//
//   unicode::script(0x4E00);   // Script::han
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::text::unicode {

// The scripts that code asks for by name; all others are different numbers above (scripts/unicode_tables.mjs).
enum class Script : uint8_t { none, common, han, hiragana, katakana, thai, lao, khmer, myanmar, tibetan };

Script script(uint32_t code_point);  // none: not assigned in 9.0; kInvalidByte is common, as U+FFFD is

// Whether words are written without spaces between them.
inline bool has_no_spaces(Script s) {
  return s >= Script::han && s <= Script::tibetan;
}

}  // namespace athanor::text::unicode
