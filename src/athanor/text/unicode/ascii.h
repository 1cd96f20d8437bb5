// The class of an ASCII character, as unicode.h has it for all, for loops in which a call for each character is slow.
//
//   const auto byte = static_cast<uint8_t>(text[0]);
//   kind = byte < 128 ? ascii_class(byte) : char_class(decode_utf8(text, 0).value);
//
// Thread rule: pure function.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "athanor/text/unicode.h"

namespace athanor::text::unicode {

constexpr auto kAsciiClasses = [] {
  std::array<CharClass, 128> classes{};
  for (size_t c = 0; c < classes.size(); ++c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_number = c >= '0' && c <= '9', is_space = c == ' ' || (c >= '\t' && c <= '\r');
    classes[c] = is_letter   ? CharClass::letter
                 : is_number ? CharClass::number
                 : is_space  ? CharClass::space
                             : CharClass::other;
  }
  return classes;
}();

constexpr CharClass ascii_class(uint8_t c) {
  return kAsciiClasses[c];
}

}  // namespace athanor::text::unicode
